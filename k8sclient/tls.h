// SPDX-License-Identifier: Apache-2.0
// Sets up OpenSSL and libcurl for this process. Any thread may call both functions, any number of times.
#pragma once

namespace berth::k8sclient {

// Sets up OpenSSL without its configuration file. The first use of OpenSSL in a process, even for a digest, decides
// whether OpenSSL reads the file. So programs that are started often call StartOpenSsl before anything else.
void StartOpenSsl();

// Sets up libcurl and OpenSSL.
void StartCurl();

}  // namespace berth::k8sclient
