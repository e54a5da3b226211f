#!/usr/bin/env bash
# Installs everything that is needed to build and test berth on Debian 12. It installs only missing packages, and takes less
# than 1 s if nothing is missing.
#
#   tools/setup.sh build     Debian packages to build and run the unit tests (needs root only if one is missing)
#   tools/setup.sh go        checks Go, and installs Debian packages with which Go fetches modules
#   tools/setup.sh cluster   Debian packages that a local Kubernetes cluster needs
#   tools/setup.sh image     Debian packages that make the image
#   tools/setup.sh curl      the system's libcurl, for -DBERTH_SYSTEM_CURL=ON
#   tools/setup.sh browser   Chromium, in which a test opens the page of "berthctl show map --html"
#   tools/setup.sh lint      clang-format and clang-tidy as Python wheels of fixed versions, in a venv in the cache folder;
#                            also promtool, unpacked from a Debian package (the installed package would start a server)
#   tools/setup.sh linters   prints the folder of these programs, and installs nothing
#
# The cache folder is ${BERTH_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/berth}.
set -euo pipefail

go_packages=(ca-certificates)
build_packages=(
  ca-certificates ccache cmake dpkg-dev g++ git make mold ninja-build pkg-config python3 python3-venv
  libboost-context1.81-dev libboost1.81-dev libcli11-dev libgmock-dev libgtest-dev libsimdjson-dev libspdlog-dev
  libssl-dev libyaml-cpp-dev musl-dev nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev
)
image_packages=(buildah zstd)
curl_packages=(libcurl4-openssl-dev)
browser_packages=(chromium)
cluster_packages=(busybox-static curl iproute2 iptables jq nftables procps runc shellcheck util-linux)

# Debian 12 has clang-tidy 14, which finds no std::expected in GCC 12's library.
clang_format_version=23.1.5
clang_tidy_version=23.1.4
mypy_version=2.4.1

# Kubernetes' go.mod requires a newer Go. Since 1.21, go itself fetches the required version.
go_minor_min=21

cache_dir=${BERTH_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:?set HOME or BERTH_CACHE_DIR}/.cache}/berth}
linters_dir=$cache_dir/linters-$clang_format_version-$clang_tidy_version-$mypy_version

fail() {
  printf 'set-up: %s\n' "$@" >&2
  exit 1
}

# run_shown <what it does> <command...>: runs the command, prints a line every 5 s, and prints its output only if it fails.
run_shown() {
  local what=$1 log started=$SECONDS child
  shift
  log=$(mktemp)
  printf 'set-up: %s ...\n' "$what"
  "$@" >"$log" 2>&1 </dev/null &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    # Short sleeps, because the command may end at once.
    for _ in {1..50}; do
      kill -0 "$child" 2>/dev/null || break
      sleep 0.1
    done
    kill -0 "$child" 2>/dev/null && printf 'set-up: %s, %s s: %s\n' "$what" $((SECONDS - started)) "$(tail -n 1 "$log" | cut -c1-80)"
  done
  if ! wait "$child"; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

install_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null ||
    fail "this is not a Debian system: install the equivalents of these packages yourself:" "$*"
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]} == 0)) && return
  ((EUID == 0)) || fail "Debian packages are missing and only root can install them. Run this, then try again:" \
    "  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
  run_shown "apt-get update" apt-get update -q ||
    fail "the package lists could not be fetched, see above: check the network and /etc/apt/sources.list"
  DEBIAN_FRONTEND=noninteractive run_shown "installing ${#missing[@]} Debian packages (${missing[*]})" \
    apt-get install -q -y --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install them, see above"
}

check_go() {
  command -v go >/dev/null ||
    fail "the program go is missing: install Go 1.$go_minor_min or newer (https://go.dev/dl) and put it on PATH." \
      "It builds Kubernetes and containerd for the end-to-end tests and the demo; berth itself does not need it."
  local version
  version=$(go env GOVERSION 2>/dev/null) || fail "go does not work: try 'go env'"
  if [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] < go_minor_min)); then
    fail "$version at $(command -v go) is too old: Go 1.$go_minor_min or newer is needed (https://go.dev/dl)"
  fi
}

install_linters() {
  [[ -e $linters_dir/complete ]] && return
  mkdir -p "$cache_dir"
  exec 9>"$linters_dir.lock"
  flock 9 # two set-ups at once would write into one venv
  [[ -e $linters_dir/complete ]] && return
  rm -rf "$linters_dir"
  run_shown "making a Python venv for clang-format, clang-tidy and mypy" /usr/bin/python3 -m venv "$linters_dir" ||
    fail "python3 -m venv does not work, see above: is python3-venv installed?"
  run_shown "installing clang-format $clang_format_version, clang-tidy $clang_tidy_version and mypy $mypy_version" \
    "$linters_dir/bin/pip" install --disable-pip-version-check --no-input \
    "clang-format==$clang_format_version" "clang-tidy==$clang_tidy_version" "mypy==$mypy_version" ||
    fail "pip could not install them, see above: check the network"
  touch "$linters_dir/complete"
}

install_promtool() {
  [[ -x $linters_dir/bin/promtool ]] && return
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && run_shown "fetching promtool" apt-get download -q prometheus &&
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool &&
    mv usr/bin/promtool "$linters_dir/bin/promtool") || fail "promtool could not be fetched, see above: check the network"
  rm -rf "$folder"
}

(($# > 0)) || fail "say what to set up: build, cluster, image, browser, lint (see the top of $0)"
for part in "$@"; do
  case $part in
    build) install_packages "${build_packages[@]}" ;;
    go)
      check_go
      install_packages "${go_packages[@]}"
      ;;
    cluster) install_packages "${cluster_packages[@]}" ;;
    image) install_packages "${image_packages[@]}" ;;
    curl) install_packages "${curl_packages[@]}" ;;
    browser) install_packages "${browser_packages[@]}" ;;
    lint)
      install_linters
      install_promtool
      ;;
    linters) echo "$linters_dir/bin" ;;
    *) fail "unknown part '$part': build, go, cluster, image, browser, lint and linters are known" ;;
  esac
done
