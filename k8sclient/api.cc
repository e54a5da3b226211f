// SPDX-License-Identifier: Apache-2.0
// Names of the methods.
#include "k8sclient/api.h"

#include "base/check.h"

namespace berth::k8sclient {

std::string_view ToString(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kPatch:
      return "PATCH";
    case Method::kDelete:
      return "DELETE";
  }
  BERTH_CHECK(false);
}

}  // namespace berth::k8sclient
