// File: need_kvm.h
//
// How a test says that it needs KVM, the same words everywhere:
//
//   TEST(Something, OnARealMachine) {
//     SLUICE_NEEDS_KVM();
//
// Without usable KVM the test is skipped with "needs KVM: " and the reason. `./dev test` looks for these words and runs
// such tests again in the nested machine (tools/nested), where KVM must be there: with SLUICE_NESTED in the environment
// its absence is a failure. Label the ctest target `kvm` too. A test that would take minutes there says so after that:
//
//     SLUICE_SLOW_IN_NESTED("boots 16 machines");
//
// and runs there only for `./dev test --nested-full`.
#ifndef SLUICE_VMM_KVM_TESTING_NEED_KVM_H_
#define SLUICE_VMM_KVM_TESTING_NEED_KVM_H_

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "vmm/kvm/vm.h"

namespace sluice::kvm::testing {

// Empty if this process can make a VM, else why not.
inline std::string WhyNoKvm() {
  const auto system = System::Open();
  if (!system.ok()) return std::string(system.status().message());
  return std::string(Vm::Create(*system).status().message());
}

}  // namespace sluice::kvm::testing

#define SLUICE_NEEDS_KVM()                                                                         \
  if (const std::string sluice_no_kvm = ::sluice::kvm::testing::WhyNoKvm(); sluice_no_kvm.empty()) \
    ;                                                                                              \
  else if (std::getenv("SLUICE_NESTED") != nullptr)                                                \
    FAIL() << "the nested machine has no usable KVM: " << sluice_no_kvm;                           \
  else                                                                                             \
    GTEST_SKIP() << "needs KVM: " << sluice_no_kvm

#define SLUICE_SLOW_IN_NESTED(why)                                                             \
  if (std::getenv("SLUICE_NESTED") == nullptr || std::getenv("SLUICE_NESTED_FULL") != nullptr) \
    ;                                                                                          \
  else                                                                                         \
    GTEST_SKIP() << "left out of the nested run; ./dev test --nested-full has it: " << (why)

#endif  // SLUICE_VMM_KVM_TESTING_NEED_KVM_H_
