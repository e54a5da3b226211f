// SPDX-License-Identifier: Apache-2.0
// The libraries for TLS and HTTP, set up for this process. Both functions: any number of times, any thread.
#pragma once

namespace berth::k8sclient {

// Sets OpenSSL up without its configuration file. Whoever uses OpenSSL first decides that, even for a digest: so
// programs that are started often call this before anything else.
void StartOpenSsl();

// Sets libcurl up, and OpenSSL.
void StartCurl();

}  // namespace berth::k8sclient
