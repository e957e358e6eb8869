# Leave out what a guest has no use for, of that which only BEE's own packages
# ($BASE) brought in: what the user asked for, by name or by apt in a script, may
# need it. After the scripts, as apt would take what is missing for there.
# Paths are relative to the root file system.
asked=$(apt-mark showmanual | while read -r package; do
  case " $BASE " in *" $package "*) ;; *) echo "$package" ;; esac
done)
needed=$(apt-cache depends --recurse --installed --important $asked | grep '^[a-z]')

# drop PACKAGE PATH... unless a package of that name is needed.
drop() {
  if printf '%s\n' "$needed" | grep -q -x "$1"; then return; fi
  shift
  rm -rf "$@"
}
# Of Python's packages, that which all programs need that use it.
drop 'libpython3.*-minimal' usr/lib/python3* usr/share/python3 usr/bin/python3*
drop tzdata usr/share/zoneinfo
