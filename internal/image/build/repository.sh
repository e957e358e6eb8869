# Install Docker's own packages from the apt repository $REPOSITORY (URL, suite and
# components). Its key lies at $KEY, unless it is trusted without one.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
trust=trusted=yes
if [ -e "$KEY" ]; then
  kind=gpg # apt tells by the name whether a key is text
  if grep -q '^-----BEGIN PGP' "$KEY"; then kind=asc; fi
  mv "$KEY" "$KEY.$kind"
  chmod 644 "$KEY.$kind"
  trust=signed-by=$KEY.$kind
fi
list=/etc/apt/sources.list.d/docker.list
preferences=/etc/apt/preferences.d/docker
echo "deb [$trust] $REPOSITORY" > $list
# Debian's lists are here already.
apt-get update -o Dir::Etc::SourceList=$list -o Dir::Etc::SourceParts=- -o APT::Get::List-Cleanup=false \
  -o APT::Update::Error-Mode=any -o APT::Sandbox::User=root
packages='docker-ce docker-ce-cli containerd.io'
for package in $packages; do
  if ! apt-cache show "$package" > /dev/null 2>&1; then
    echo "E: $REPOSITORY has no $package for $(dpkg --print-architecture)" >&2
    exit 1
  fi
done
for package in docker-buildx-plugin docker-compose-plugin; do
  if apt-cache show "$package" > /dev/null 2>&1; then packages="$packages $package"; fi
done
# Whatever else has packages of these names.
printf 'Package: %s\nPin: origin "%s"\nPin-Priority: 1001\n' "$packages" "$HOST" > $preferences
apt-get install -y -o APT::Sandbox::User=root $packages
rm -rf $list $preferences "${KEY%/*}"
