// File: shared_access_raw.h
//
// Private to vmm/memory: loads and stores on bytes that a guest changes at any time. Every shared byte is accessed by
// exactly one relaxed atomic instruction per call, in the widest naturally aligned pieces up to 8 bytes, so that the
// compiler neither repeats nor invents a fetch and an aligned 1, 2, 4 or 8 byte value is never torn.
#ifndef SLUICE_VMM_MEMORY_SHARED_ACCESS_RAW_H_
#define SLUICE_VMM_MEMORY_SHARED_ACCESS_RAW_H_

#include <atomic>
#include <cstdint>

namespace sluice::memory::internal {

// Callers guarantee that [shared, shared + bytes) is mapped (and writable for the stores) and [private, + bytes) is
// theirs.
void FetchBytes(void* private_to, const uint8_t* shared_from, uint64_t bytes);
void StoreBytes(uint8_t* shared_to, const void* private_from, uint64_t bytes);
void FillBytes(uint8_t* shared_to, uint8_t value, uint64_t bytes);

// T: uint8_t, uint16_t, uint32_t, uint64_t; `shared` is aligned to sizeof(T). Orders: relaxed, acquire (loads), release
// (stores), seq_cst; any other is taken as acquire or release.
template <typename T>
T AtomicLoad(const uint8_t* shared, std::memory_order order);
template <typename T>
void AtomicStore(uint8_t* shared, T value, std::memory_order order);

}  // namespace sluice::memory::internal

#endif  // SLUICE_VMM_MEMORY_SHARED_ACCESS_RAW_H_
