// File: status_macros.h
//
// The two macros that return from their caller, named after the ones that newer Abseil releases ship. The only ones.
//
//   absl::StatusOr<int> F() {
//     SLUICE_RETURN_IF_ERROR(Step());
//     SLUICE_ASSIGN_OR_RETURN(auto x, Make());
//     return x;
//   }
#ifndef SLUICE_VMM_BASE_STATUS_MACROS_H_
#define SLUICE_VMM_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define SLUICE_CONCAT_INNER_(a, b) a##b
#define SLUICE_CONCAT_(a, b) SLUICE_CONCAT_INNER_(a, b)

// Returns `expr`'s status from the enclosing function unless it is OK.
#define SLUICE_RETURN_IF_ERROR(expr)                                  \
  do {                                                                \
    if (absl::Status sluice_status_ = (expr); !sluice_status_.ok()) { \
      return sluice_status_;                                          \
    }                                                                 \
  } while (false)

// Assigns the value of a StatusOr to `lhs`, or returns its status from the enclosing function.
#define SLUICE_ASSIGN_OR_RETURN(lhs, expr) \
  SLUICE_ASSIGN_OR_RETURN_IMPL_(SLUICE_CONCAT_(sluice_or_, __LINE__), lhs, expr)
#define SLUICE_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  lhs = *std::move(tmp)

namespace sluice {

// The same status with "`context`: " before its message. Add context once, at the layer that knows the thing's name.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

// A status for the calling thread's `errno`, naming the call that failed: "KVM_CREATE_VM: Permission denied".
absl::Status ErrnoToStatus(int error_number, absl::string_view what);

}  // namespace sluice

#endif  // SLUICE_VMM_BASE_STATUS_MACROS_H_
