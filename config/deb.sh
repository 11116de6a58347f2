#!/usr/bin/env bash
# Builds the Debian package: bash config/deb.sh
#
# Needs cargo-deb (cargo install cargo-deb). Man pages and completions are made by the program itself. The package lies in
# target/debian afterwards; `dpkg -i` installs it, `systemctl enable --now pinbad.socket pinbad.service` starts it. Installed over an older
# one it restarts the service if that runs, and not the socket (config/debian).
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
cargo build --profile dist --locked
mkdir -p target/man target/completions
"$target/dist/pinbad" man --dir target/man
"$target/dist/pinbad" completions bash > target/completions/pinbad.bash
"$target/dist/pinbad" completions zsh > target/completions/_pinbad
"$target/dist/pinbad" completions fish > target/completions/pinbad.fish
cargo deb --no-build --locked --profile dist "$@"
