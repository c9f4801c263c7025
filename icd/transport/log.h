// File: log.h
//
// What the driver has to say to a person: one line on stderr each, and only if the environment variable SLUICE_LOG is
// set (to anything but "0"). A driver inside somebody else's program is silent otherwise.
//
//   Log("cannot connect to %s: %s", path, strerror(error));
#ifndef SLUICE_ICD_TRANSPORT_LOG_H_
#define SLUICE_ICD_TRANSPORT_LOG_H_

namespace sluice::icd {

bool LogEnabled();
// printf-like; "sluice: " before, newline behind; control characters become '?'. Any thread.
void Log(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace sluice::icd

#endif  // SLUICE_ICD_TRANSPORT_LOG_H_
