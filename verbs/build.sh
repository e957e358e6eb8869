#!/bin/sh
# Build verbs.so: build.sh OUTPUT [BUILD-ID]. CC selects the compiler.
set -e
cd "$(dirname "$0")"
exec "${CC:-gcc}" -std=gnu11 -O2 -g0 -Wall -Wextra -Werror -D_GNU_SOURCE \
	-ffreestanding -fno-stack-protector -fno-plt -fPIC -fvisibility=hidden -ffile-prefix-map="$PWD"=. \
	-DBEE_BUILD_ID="\"${2:-00000000000000000000000000000000}\"" \
	-nostdlib -shared -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,--build-id=none -Wl,--hash-style=gnu -s \
	-o "$1" *.c
