// SPDX-License-Identifier: MIT
// Formats sites, lane masks and code addresses for error texts.
// Layer: host execution, internal.
#include "report.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace strobe {
inline namespace STROBE_ABI {
namespace host {
namespace {

constexpr char kOpen[] = "@{";

// The file with its folder: enough to find it, short enough to read.
const char* short_name(const char* path) {
  const char* last = std::strrchr(path, '/');
  if (last == nullptr) return path;
  for (const char* p = last; p != path;) {
    if (*--p == '/') return p + 1;
  }
  return path;
}

// The first two lines that `addr2line -f -C` prints: function and file:line.
bool run_addr2line(const char* module, uint64_t offset, std::string& function, std::string& line) {
  const std::string quoted = module;
  if (quoted.find('\'') != std::string::npos) return false;
  char command[1200];
  const int length =
      std::snprintf(command, sizeof command, "addr2line -f -C -e '%s' 0x%llx 2>/dev/null", module,
                    static_cast<unsigned long long>(offset));
  if (length < 0 || static_cast<size_t>(length) >= sizeof command) return false;
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return false;
  char buffer[1000];
  std::string output[2];
  for (std::string& text : output) {
    if (std::fgets(buffer, sizeof buffer, pipe) == nullptr) break;
    text = buffer;
    while (!text.empty() && text.back() == '\n') text.pop_back();
  }
  pclose(pipe);
  const std::string& place = output[1];
  if (place.empty() || place[0] == '?' || place.find(":?") != std::string::npos) return false;
  function = output[0];
  line = short_name(place.c_str());
  line = line.substr(0, line.find(" (discriminator"));
  return true;
}

std::string resolve(uint64_t address) {
  Dl_info info;
  link_map* map = nullptr;
  // A return address: the instruction that matters lies one byte before it.
  void* pc = reinterpret_cast<void*>(address - 1);
  if (dladdr1(pc, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) {
    return "an unknown address";
  }
  const uint64_t offset = address - 1 - static_cast<uint64_t>(map->l_addr);
  // The main program has no name in the link map, and argv[0] may be relative to a folder we have
  // left.
  const char* module = map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe";
  char self[1024];
  if (map->l_name[0] == '\0') {
    char* path = realpath(module, nullptr);
    std::snprintf(self, sizeof self, "%s", path != nullptr ? path : info.dli_fname);
    std::free(path);
    module = self;
  }
  std::string function, line;
  if (run_addr2line(module, offset, function, line)) {
    // Templates make long names, and the line says it better.
    if (function.size() > 80) function = function.substr(0, 77) + "...";
    return line + " (" + function + ")";
  }
  return format("%.600s+0x%llx", short_name(module), static_cast<unsigned long long>(offset)).text;
}

}  // namespace

Message format(const char* pattern, ...) {
  Message message;
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(message.text, sizeof message.text, pattern, arguments);
  va_end(arguments);
  return message;
}

Message describe(Site site) {
  if (!site.known()) return format("an unknown place");
  if (site.is_code()) {
    return format("%s%llx}", kOpen, static_cast<unsigned long long>(site.address()));
  }
  return format("%.300s:%d", short_name(site.file()), site.line());
}

Message describe_lanes(uint32_t mask) {
  Message message;
  size_t used = 0;
  message.text[0] = '\0';
  for (int first = 0; first < 32; ++first) {
    if ((mask >> first & 1) == 0) continue;
    int last = first;
    while (last < 31 && (mask >> (last + 1) & 1) != 0) ++last;
    const char* comma = used == 0 ? "" : ",";
    const int written =
        first == last
            ? std::snprintf(message.text + used, sizeof message.text - used, "%s%d", comma, first)
            : std::snprintf(message.text + used, sizeof message.text - used, "%s%d-%d", comma,
                            first, last);
    used += static_cast<size_t>(written);
    first = last;
  }
  return message;
}

std::string resolve_addresses(const std::string& text) {
  std::string result;
  size_t from = 0;
  for (;;) {
    const size_t open = text.find(kOpen, from);
    const size_t close = open == std::string::npos ? open : text.find('}', open);
    if (close == std::string::npos) return result + text.substr(from);
    result += text.substr(from, open - from);
    result += resolve(std::strtoull(text.c_str() + open + 2, nullptr, 16));
    from = close + 1;
  }
}

}  // namespace host
}  // namespace STROBE_ABI
}  // namespace strobe
