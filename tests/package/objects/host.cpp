// SPDX-License-Identifier: MIT
// usage: host OBJECT.so=EXPECTED ...
// Loads the objects in this order, names visible to each other, as a program loads plug-ins, and
// calls each. It is the CUDA runtime of all of them: one with a GPU of compute capability 9.0 that
// writes down what it is asked to launch, and which object that code came from. EXPECTED is part of
// what the object says, and "launches KERNEL" of what it launches: OBJECT.so=launches prefill_sm80.
// Wrong if an object launches another's kernel, or none where it says it does.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strobe/types.hpp"

namespace {

struct Kernel {
  std::string name, object;
};
std::map<const void*, Kernel> kernels;    // by the host's function, as CUDA knows them
std::map<std::string, int> architecture;  // of an object
std::vector<Kernel> launched;

std::string object_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

CUresult encode(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}

}  // namespace

// ---- the runtime: what nvcc's own code calls, then what strobe calls ----------------------------

extern "C" {

// `binary` lies in the object whose code it holds.
void** __cudaRegisterFatBinary(void* binary) {
  return reinterpret_cast<void**>(new std::string(object_of(binary)));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete reinterpret_cast<std::string*>(handle); }
void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int,
                            void*, void*, void*, void*, int*) {
  kernels[function] = {name, *reinterpret_cast<std::string*>(handle)};
}
char __cudaInitModule(void**) { return 1; }
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaErrorUnknown; }
cudaError_t __cudaGetKernel(void*, const void*) { return cudaErrorUnknown; }
cudaError_t __cudaLaunchKernel(void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaErrorUnknown;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the test's CUDA runtime"; }
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  return kernels.count(function) != 0 ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const auto found = kernels.find(function);
  if (found == kernels.end()) return cudaErrorInvalidDeviceFunction;
  const Kernel& kernel = found->second;
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = architecture[kernel.object];
  // The probe of an object for 9.0a has some; that this is so in the machine code is another test's
  // business (compile.nvcc).
  if (kernel.name.find("built_for_sm90a") != std::string::npos &&
      kernel.object.find("90a") != std::string::npos)
    attributes->sharedSizeBytes = 4;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, size_t, cudaStream_t) {
  const auto found = kernels.find(function);
  if (found == kernels.end()) return cudaErrorInvalidDeviceFunction;
  launched.push_back(found->second);
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(&encode);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"

// ---- the program --------------------------------------------------------------------------------

namespace {

struct Object {
  std::string path, expected;
  int (*attend)(const strobe::Device*, char*);
};

int load(const char* argument, std::vector<Object>& objects) {
  const char* const equals = std::strchr(argument, '=');
  if (equals == nullptr) return 2;
  const std::string path(argument, equals);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto ask = reinterpret_cast<int (*)()>(dlsym(handle, "strobe_test_architecture"));
  const auto attend =
      reinterpret_cast<int (*)(const strobe::Device*, char*)>(dlsym(handle, "strobe_test_attend"));
  if (ask == nullptr || attend == nullptr) return 1;
  const std::string name = object_of(reinterpret_cast<const void*>(attend));
  architecture[name] = ask();
  objects.push_back({name, equals + 1, attend});
  return 0;
}

bool call(const Object& object) {
  const strobe::Device device{0, 90, 132, 227 * 1024};
  char text[strobe::Status::capacity];
  launched.clear();
  const bool ok = object.attend(&device, text) == int(strobe::Code::ok);
  std::printf("%s: %s\n", object.path.c_str(), text);
  for (const Kernel& kernel : launched)
    std::printf("  launched %s of %s\n", kernel.name.c_str(), kernel.object.c_str());
  const std::string launches = "launches ";
  if (object.expected.compare(0, launches.size(), launches) != 0)
    return !ok && launched.empty() && std::strstr(text, object.expected.c_str()) != nullptr;
  const std::string name = object.expected.substr(launches.size());
  // A mangled name begins with the length of its parts, so that prefill_sm80 is not part of
  // another.
  const std::string mangled = std::to_string(name.size()) + name;
  return ok && launched.size() == 1 && launched[0].object == object.path &&
         launched[0].name.find(mangled) != std::string::npos &&
         std::strstr(text, name.c_str()) != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Object> objects;
  for (int i = 1; i < argc; ++i) {
    if (const int error = load(argv[i], objects); error != 0) return error;
  }
  bool right = !objects.empty();
  for (int round = 0; round < 2; ++round) {  // the second from what the first remembered
    for (const Object& object : objects) {
      if (call(object)) continue;
      right = false;
      std::fprintf(stderr, "%s: expected: %s, by its own code\n", object.path.c_str(),
                   object.expected.c_str());
    }
  }
  return right ? 0 : 1;
}
