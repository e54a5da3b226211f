// SPDX-License-Identifier: Apache-2.0
// Cases 23 to 40: the contents of stdin, and how they arrive.
#include "e2e/conformance/conformance.h"

namespace berth::conformance {
namespace {

using testing::HasSubstr;

TEST_F(Conformance, Case023_EmptyBlankAndCutShortInputIsADecodingError) {
  for (const char* text : {"", " \n\t ", "{"}) Error(Base("ADD").Input(text), {6}, "stdin");
}

TEST_F(Conformance, Case024_InputThatIsNoObjectIsADecodingError) {
  for (const char* text : {"[]", "\"x\"", "123"}) Error(Base("ADD").Input(text), {6}, "must be an object");
}

TEST_F(Conformance, Case025_NullAndAnEmptyObjectLackTheName) {
  for (const char* text : {"null", "{}"}) Error(Base("ADD").Input(text), {7}, "missing network name");
}

TEST_F(Conformance, Case026_TrailingTextAndAByteOrderMarkAreRefused) {
  const std::string text = Base("ADD").config.dump();
  Error(Base("ADD").Input(text + " x"), {6});
  Error(Base("ADD").Input("\xEF\xBB\xBF" + text), {6}, "byte order mark");
}

TEST_F(Conformance, Case027_TheNameIsAnIdentifier) {
  Error(Base("ADD").Config({{"name", 5}}), {6}, "name");
  Error(Base("ADD").Config({{"name", ""}}), {7}, "missing network name");
  for (const char* name : {"a%b", "-x", "te%%st"}) {
    Error(Base("ADD").Config({{"name", name}}), {7}, "invalid characters found in network name");
  }
}

TEST_F(Conformance, Case028_AVersionThatIsANumberIsADecodingError) {
  Error(Base("ADD").Config({{"cniVersion", 1.1}}), {6}, "cniVersion");
}

TEST_F(Conformance, Case029_NoVersionMeans010) {
  Call absent = Base("ADD");
  absent.config.erase("cniVersion");
  const json result = Ok(absent);
  EXPECT_EQ(result.value("cniVersion", ""), "0.1.0");
  EXPECT_TRUE(result.contains("ip4")) << result;
  EXPECT_TRUE(Ok(Base("ADD").Config({{"cniVersion", ""}})).contains("ip4"));
}

TEST_F(Conformance, Case030_UnsupportedVersionsNameBothSides) {
  for (const char* verb : {"ADD", "DEL"}) {
    for (const char* version : {"2.0.0", "9.8.7", "0.3", "abc"}) {
      const json error = Error(Base(verb).Config({{"cniVersion", version}}), {1});
      EXPECT_THAT(error.value("details", ""), HasSubstr(version));
      EXPECT_THAT(error.value("details", ""), HasSubstr("0.3.1, 0.4.0, 1.0.0, 1.1.0"));
    }
  }
}

TEST_F(Conformance, Case031_CheckGcAndStatusCannotParseAWordAsAVersion) {
  for (const char* verb : {"CHECK", "GC", "STATUS"}) Error(Base(verb).Config({{"cniVersion", "abc"}}), {6}, "abc");
}

TEST_F(Conformance, Case032_UnreadableInputIsAnInputError) {
  Call call = Base("ADD");
  call.in = cni_testing::Stdin::kClosed;
  Error(call, {5}, "stdin");
  call.in = cni_testing::Stdin::kDirectory;
  Error(call, {5}, "stdin");
}

TEST_F(Conformance, Case033_TwentyMegabytesOfPaddingAreRead) {
  Call call = Base("ADD");
  call.config["padding"] = std::string(20'000'000, 'x');
  Ok(call);
}

TEST_F(Conformance, Case034_DeepAndEndlessInputIsRefusedWithoutACrash) {
  const std::string good = Base("ADD").config.dump();
  const std::string begin = good.substr(0, good.size() - 1) + ",\"x\":";
  constexpr int kLevels = 100'000;
  Error(Base("ADD").Input(begin + std::string(kLevels, '[') + std::string(kLevels, ']') + "}"), {6}, "nested");
  Call endless = Base("ADD").Input(begin + "\"");
  endless.in = cni_testing::Stdin::kFlood;
  Error(endless, {6}, "larger than");
}

TEST_F(Conformance, Case035_AMissingIpamSectionIsNamed) {
  Call call = Base("ADD");
  call.config["ipam"] = nullptr;
  Error(call, {7}, "IPAM config missing 'ipam' key");
  call.config.erase("ipam");
  Error(call, {7}, "IPAM config missing 'ipam' key");
}

TEST_F(Conformance, Case036_WrongTypesInsideIpamNameTheField) {
  Call call = Base("ADD");
  call.config["ipam"] = json::object();
  Error(call, {7}, "ipam.type");
  call.config["ipam"] = "berth";
  Error(call, {6}, "ipam is a string");
  Error(Base("ADD").Config({{"ipam", {{"pools", "p1"}}}}), {6}, "ipam.pools is a string");
  Error(Base("ADD").Config({{"ipam", {{"timeoutSeconds", "5"}}}}), {6}, "ipam.timeoutSeconds");
  Error(Base("ADD").Config({{"ipam", {{"kubeconfig", {1}}}}}), {6}, "ipam.kubeconfig");
}

TEST_F(Conformance, Case037_UnknownKeysAreIgnored) {
  Call call = Base("ADD").Config({{"x", {1, "a"}}, {"cni.dev/foo", 5}, {"capabilities", {{"ips", true}}}});
  call.config["ipam"]["subnet"] = "10.9.0.0/16";
  Ok(call);
}

TEST_F(Conformance, Case038_NullAndForeignArgsAreIgnored) {
  Call call = Base("ADD");
  call.config["runtimeConfig"] = nullptr;
  call.config["args"] = nullptr;
  Ok(call);
  call.config["args"] = {{"foo", {1, 2}}};
  Ok(call);
}

// berth accepts any letter case, like Go's decoder, because configurations for other plugins rely on that.
TEST_F(Conformance, Case039_KeysAreReadInAnyLetterCase) {
  Call call = Base("ADD");
  call.config["CNIVersion"] = "1.0.0";
  call.config.erase("cniVersion");
  call.config["IPAM"] = call.config["ipam"];
  call.config.erase("ipam");
  EXPECT_EQ(Ok(call).value("cniVersion", ""), "1.0.0");
}

TEST_F(Conformance, Case040_InputMayArriveByteByByte) {
  Call call = Base("ADD");
  call.chunk_bytes = 1;
  Ok(call);
}

}  // namespace
}  // namespace berth::conformance
