// File: cases.h
//
// The groups of cases of vkbench; main.cc lists them by name.
#ifndef SLUICE_BENCH_VULKAN_CASES_H_
#define SLUICE_BENCH_VULKAN_CASES_H_

namespace vkbench {

struct Ctx;
class Report;

void caseRecord(Ctx& c, Report& r);
void caseE2e(Ctx& c, Report& r);
void caseMulti(Ctx*, Report& r);
void caseStartup(Ctx*, Report& r);
void caseQuery(Ctx& c, Report& r);
void caseSubmit(Ctx& c, Report& r);
void caseTimeline(Ctx& c, Report& r);
void caseChurn(Ctx& c, Report& r);
void caseMapped(Ctx& c, Report& r);
void caseTransfer(Ctx& c, Report& r);
void caseDispatch(Ctx& c, Report& r);
void caseFrame(Ctx& c, Report& r);
void casePoll(Ctx& c, Report& r);
// Child side of caseMulti.
int workerMain(double seconds);

}  // namespace vkbench

#endif  // SLUICE_BENCH_VULKAN_CASES_H_
