// Package debian knows how mmdebstrap makes a root file system of Debian
// packages: its command line, the package sources of this host, and the moment
// that makes two builds of the same packages the same. It runs no build and
// knows nothing of the cache.
package debian

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
)

// Options of Command, beyond what the Beefile says.
type Options struct {
	Arch string // Debian's and Go's name are the same for those we support
	// Sources are those of Sources.
	Sources []string
	// Apt are settings of this host's apt that a build needs, such as a proxy.
	Apt []string
	// Mode is mmdebstrap's; empty: auto.
	Mode string
	// Base is a tar file of the packages, installed: what Command makes of Packages;
	// empty: they are to be installed.
	Base string
}

// Command is mmdebstrap's command line. The tar stream goes to its standard
// output.
func Command(b spec.Build, o Options) []string {
	argv := []string{
		"mmdebstrap", "--variant=" + variant(o), "--architectures=" + o.Arch, "--components=main",
		`--aptopt=APT::Install-Recommends "` + strconv.FormatBool(!b.Slim) + `"`, `--aptopt=Acquire::Retries "3"`, `--aptopt=Acquire::Languages "none"`,
	}
	if keysNamed(o.Sources) {
		// Looking for the key would start a gpg agent, which a sudden end
		// leaves behind with its directory.
		argv = append(argv, "--skip=check/signed-by")
	}
	if o.Mode != "" {
		argv = append(argv, "--mode="+o.Mode)
	}
	if b.Snapshot != "" { // a mirror of a past date says that it is out of date
		argv = append(argv, `--aptopt=Acquire::Check-Valid-Until "false"`)
	}
	for _, a := range o.Apt {
		argv = append(argv, "--aptopt="+a)
	}
	argv = append(argv, "--dpkgopt=force-unsafe-io")
	if b.Slim {
		argv = append(argv, "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
			"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright")
	}
	if o.Base != "" {
		argv = append(argv, "--setup-hook=tar-in "+shell.Quote(o.Base)+" /")
	} else if len(b.Packages) > 0 {
		argv = append(argv, "--include="+strings.Join(b.Packages, ","))
		// mmdebstrap asks for them only once it has set up all that is essential: a slip
		// of the pen would be reported a minute later. The packages are those of the suite:
		// this host may have another one's, or none.
		var names []string
		for _, p := range b.Packages {
			names = append(names, shell.Quote(p))
		}
		argv = append(argv, `--extract-hook=[ -z "$MMDEBSTRAP_APT_CONFIG" ] || APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get --simulate -qq install `+strings.Join(names, " ")+" > /dev/null")
	}
	for _, c := range b.Copy {
		for _, hook := range copyHooks(c) {
			argv = append(argv, "--customize-hook="+hook)
		}
	}
	for i, r := range b.Run {
		script := shell.Quote(r)
		if byEnvironment(r) {
			script = `"$` + scriptVariable(i) + `"`
		}
		argv = append(argv, `--customize-hook=chroot "$1" /bin/sh -ec `+script)
	}
	// What depends on the moment or the place of the build.
	argv = append(argv, `--customize-hook=rm -rf "$1"/var/cache/ldconfig/aux-cache "$1"/var/log/* "$1"/etc/machine-id "$1"/etc/resolv.conf "$1"/etc/hostname`,
		`--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*`)
	return append(append(argv, "--", b.Debian, "-"), o.Sources...)
}

// variant is what mmdebstrap installs by itself: nothing where all is there.
func variant(o Options) string {
	if o.Base != "" {
		return "custom"
	}
	return "apt"
}

// Packages is the part of a build that its packages are: what a change of copied files,
// commands and configuration leaves as it is.
func Packages(b spec.Build) spec.Build {
	b.Copy, b.Run, b.Env, b.Workdir, b.Entrypoint, b.Cmd = nil, nil, nil, "", nil, nil
	return b
}

// byEnvironment reports whether a script goes by the environment: mmdebstrap repeats its
// hooks in every message, of which long ones hide why they failed, and lines after the
// first would be taken for messages themselves.
func byEnvironment(script string) bool {
	return len(script) > 400 || strings.Contains(script, "\n")
}

func scriptVariable(i int) string { return "BEE_RUN_" + strconv.Itoa(i) }

// Environment is what Command needs in mmdebstrap's environment.
func Environment(b spec.Build) []string {
	var env []string
	for i, r := range b.Run {
		if byEnvironment(r) {
			env = append(env, scriptVariable(i)+"="+r)
		}
	}
	return env
}

// chatter is compiled by the few processes that need it.
var chatter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(umount: |W: (umount|unlink|cannot unlink|cannot rmdir) (\./|/)(dev|proc|sys)\b` +
		`|(Get|Hit|Ign):\d+ |Fetched \d|I: (automatically|chroot architecture|skipping|using|running --|cleaning|done|removing|success)\b)`)
})

// Chatter reports whether a line of mmdebstrap's or apt's says nothing to anyone who
// waits for the image, or looks for why there is none: each package that is fetched,
// its own hooks, and, by dozens after the reason, what a build that failed no longer
// has to take down.
func Chatter(line string) bool { return chatter().MatchString(line) }

// keysNamed reports whether every source says by which key it is signed.
func keysNamed(sources []string) bool {
	for _, s := range sources {
		if !strings.HasPrefix(s, "deb ") || keyIn(strings.Fields(s)[1:]) == "" {
			return false
		}
	}
	return len(sources) > 0
}

// copyHooks bring files in by mmdebstrap's own commands, which work in every
// mode: a file under its name (or into a directory, where To ends with a slash),
// a directory's contents.
func copyHooks(c spec.Copy) []string {
	mkdir := func(dir string) string { return `mkdir -p "$1"` + shell.Quote(dir) }
	info, err := os.Stat(c.From)
	if err != nil || info.IsDir() {
		return []string{mkdir(c.To), "sync-in " + shell.Quote(c.From) + " " + shell.Quote(c.To)}
	}
	to := c.To
	if strings.HasSuffix(to, "/") {
		to += filepath.Base(c.From)
	}
	hooks := []string{mkdir(filepath.Dir(to)), "upload " + shell.Quote(c.From) + " " + shell.Quote(to)}
	if info.Mode()&0o111 != 0 { // upload forgets the mode
		hooks = append(hooks, `chmod 755 "$1"`+shell.Quote(to))
	}
	return hooks
}
