// SPDX-License-Identifier: MIT
// Status and the Sentence that fills it: numbers at their limits, and what happens at the end of
// the buffer.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "strobe/detail/check.hpp"

namespace {

using strobe::Code;
using strobe::Status;
using strobe::detail::Sentence;

template <class Value>
std::string written(Value value) {
  return Status(Sentence(Code::invalid) << value).text;
}

bool terminated(const Status& status) {
  return std::memchr(status.text, '\0', sizeof status.text) != nullptr;
}

}  // namespace

TEST_CASE("a Status starts out ok, with no text", "[cpu][status]") {
  const Status status;
  CHECK(status.ok());
  CHECK(bool(status));
  CHECK(status.code == Code::ok);
  CHECK(status.cuda == cudaSuccess);
  CHECK(std::string(status.text).empty());
}

TEST_CASE("invalid, unsupported and launch_failed are distinct and not ok", "[cpu][status]") {
  const Status invalid = strobe::detail::invalid() << "a";
  const Status unsupported = strobe::detail::unsupported() << "b";
  const Status failed = Sentence(Code::launch_failed, cudaErrorInvalidDevice) << "c";
  CHECK((!invalid && !unsupported && !failed));
  CHECK(invalid.code == Code::invalid);
  CHECK(invalid.cuda == cudaErrorInvalidValue);
  CHECK(unsupported.code == Code::unsupported);
  CHECK(unsupported.cuda == cudaErrorNotSupported);
  CHECK(failed.code == Code::launch_failed);
  CHECK(failed.cuda == cudaErrorInvalidDevice);
  CHECK(std::string(failed.text) == "c");
}

TEST_CASE("Sentence writes numbers, characters and pointers", "[cpu][status]") {
  CHECK(written(0) == "0");
  CHECK(written(-1) == "-1");
  CHECK(written(1234567890) == "1234567890");
  CHECK(written(std::numeric_limits<int>::min()) == "-2147483648");
  CHECK(written(4294967295u) == "4294967295");
  CHECK(written(int64_t(10)) == "10");
  CHECK(written(std::numeric_limits<int64_t>::max()) == "9223372036854775807");
  CHECK(written(std::numeric_limits<int64_t>::min()) == "-9223372036854775808");
  CHECK(written(std::numeric_limits<uint64_t>::max()) == "18446744073709551615");
  CHECK(written('x') == "x");
  CHECK(written("text") == "text");
  CHECK(written(reinterpret_cast<const void*>(uintptr_t(0x7f00deadbeef))) == "0x7f00deadbeef");
  CHECK(written(reinterpret_cast<const void*>(~uintptr_t(0))) == "0xffffffffffffffff");
  CHECK(written(static_cast<const void*>(nullptr)) == "0x0");
}

TEST_CASE("Sentence writes floats so that no two look alike", "[cpu][status]") {
  CHECK(written(0.f) == "0");
  CHECK(written(-0.5f) == "-0.5");
  CHECK(written(50.f) == "50");
  CHECK(written(std::numeric_limits<float>::infinity()) == "inf");
  CHECK(written(-std::numeric_limits<float>::infinity()) == "-inf");
  CHECK(written(std::numeric_limits<float>::quiet_NaN()).find("nan") != std::string::npos);
  for (float value : {0.1f, 3.4028235e38f, -16777216.f, 1.17549435e-38f})
    CHECK(std::stof(written(value)) == value);
  CHECK(written(1.f) != written(std::nextafter(1.f, 2.f)));
}

TEST_CASE("pieces follow each other", "[cpu][status]") {
  const Status status = strobe::detail::invalid()
                        << "bounds.q_len is " << -3 << ',' << " not " << uint64_t(7);
  CHECK(std::string(status.text) == "bounds.q_len is -3, not 7");
}

TEST_CASE("a sentence that is too long ends with three dots", "[cpu][status]") {
  const int room = Status::capacity - 1;  // characters before the terminator
  for (int length = room - 4; length <= room + 400; ++length) {
    Sentence sentence(Code::invalid);
    for (int i = 0; i < length; ++i) sentence << char('a' + i % 26);
    const Status status = sentence;
    REQUIRE(terminated(status));
    const std::string text = status.text;
    if (length <= room) {
      REQUIRE(int(text.size()) == length);
      REQUIRE(text.find('.') == std::string::npos);
    } else {
      REQUIRE(int(text.size()) == room);
      REQUIRE(text.substr(text.size() - 3) == "...");
      REQUIRE(text.find('.') == text.size() - 3);
    }
  }
}

TEST_CASE("a number is cut like any other text", "[cpu][status]") {
  Sentence sentence(Code::unsupported);
  for (int i = 0; i < Status::capacity - 6; ++i) sentence << '-';
  const Status status = sentence << std::numeric_limits<int64_t>::min() << 5;
  REQUIRE(terminated(status));
  const std::string text = status.text;
  CHECK(text.size() == size_t(Status::capacity - 1));
  CHECK(text.substr(text.size() - 5) == "-9...");  // the minus sign and one digit still fitted
}

TEST_CASE("is_finite goes by the bits", "[cpu][status]") {
  using strobe::detail::is_finite;
  for (float value : {0.f, -0.f, 1.f, -1e-45f, 3.4028235e38f, -3.4028235e38f})
    CHECK(is_finite(value));
  CHECK_FALSE(is_finite(std::numeric_limits<float>::infinity()));
  CHECK_FALSE(is_finite(-std::numeric_limits<float>::infinity()));
  CHECK_FALSE(is_finite(std::numeric_limits<float>::quiet_NaN()));
  CHECK_FALSE(is_finite(std::numeric_limits<float>::signaling_NaN()));
}
