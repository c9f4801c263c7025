// File: symbols.h
//
// Functions of shared libraries that are opened when they are needed, so that the driver loads on machines that lack
// them (README, "Linking"). Private to this directory.
#ifndef SLUICE_ICD_WSI_SYMBOLS_H_
#define SLUICE_ICD_WSI_SYMBOLS_H_

#include "flatbuf/vkgen/cast_raw.h"

namespace sluice::wsi {

// dlopen(3) with RTLD_LOCAL, never closed: client libraries register with one another and must not go while a program
// uses them. Null: not there.
void* OpenLibrary(const char* name);
// A symbol of an open library; null if it is not there.
void* FindSymbol(void* library, const char* name);

template <typename Function>
bool FindFunction(void* library, const char* name, Function* function) {
  *function = vk::FunctionCast<Function>(FindSymbol(library, name));
  return *function != nullptr;
}

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_SYMBOLS_H_
