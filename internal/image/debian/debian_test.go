package debian

import (
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
)

func TestSourcesAreFound(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"deb822", "Types: deb\n# a comment\nURIs: http://mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main contrib\n", "deb http://mirror/debian bookworm main|deb http://mirror/debian bookworm-updates main"},
		{"other suite", "Types: deb\nURIs: http://mirror/debian\nSuites: trixie\nComponents: main\n", ""},
		{"second of two", "Types: deb\nURIs: http://a/\nSuites: trixie\nComponents: main\n\nTypes: deb\nURIs: http://b/\nSuites: bookworm-security\nComponents: main\n", "deb http://b/ bookworm-security main"},
		{"switched off", "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n", ""},
		{"sources of programs", "Types: deb-src\nURIs: http://mirror/debian\nSuites: bookworm\nComponents: main\n", ""},
		{"one line", "# c\ndeb http://mirror/debian bookworm main\n", "deb http://mirror/debian bookworm main"},
		{"one line with options", "deb [arch=amd64 signed-by=/k] http://mirror/debian bookworm main\n", "deb [signed-by=/k] http://mirror/debian bookworm main"},
		{"a key in deb822", "Types: deb\nURIs: http://m\nSuites: bookworm\nComponents: main\nSigned-By: /k\n", "deb [signed-by=/k] http://m bookworm main"},
		{"another component", "deb http://mirror/other bookworm stable\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(parseSources(c.text, "bookworm"), "|"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A date alone pins the packages, wherever the build is made.
func TestSourcesOfADate(t *testing.T) {
	const at = "http://snapshot.debian.org/archive/"
	for _, c := range []struct {
		b    spec.Build
		want []string // URL and suite of each
	}{
		{spec.Build{Debian: "bookworm", Snapshot: "D"}, []string{at + "debian/D bookworm", at + "debian/D bookworm-updates", at + "debian-security/D bookworm-security"}},
		{spec.Build{Debian: "sid", Snapshot: "D"}, []string{at + "debian/D sid"}},
		{spec.Build{Debian: "bookworm", Snapshot: "D", Mirror: "deb http://m/$SNAPSHOT bookworm main"}, []string{"http://m/D bookworm"}},
	} {
		var got []string
		for _, line := range Sources(c.b) {
			got = append(got, strings.Join(dropOptions(strings.Fields(line)[1:])[:2], " "))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q", c.b, got)
		}
	}
}

func TestAptSettings(t *testing.T) {
	dump := "APT \"\";\nAcquire::http::Proxy \"http://p:1\";\nAcquire::Retries \"2\";\nAcquire::https::CaInfo \"/ca\";\n"
	if got := strings.Join(AptSettings(dump), "|"); got != `Acquire::http::Proxy "http://p:1"|Acquire::https::CaInfo "/ca"` {
		t.Errorf("got %q", got)
	}
}

func TestCommand(t *testing.T) {
	b := spec.Build{
		Debian: "bookworm", Packages: []string{"hello", "tar"}, Snapshot: "20250520T000000Z", Mirror: "http://m/$SNAPSHOT",
		Run: []string{"echo it's"}, Copy: []spec.Copy{{From: "/nowhere/a b", To: "/opt/a"}},
	}
	got := Command(b, Options{Arch: "arm64", Apt: []string{"A \"b\""}, Sources: Sources(b)})
	for _, want := range []string{
		"--architectures=arm64", "--include=hello,tar", `--extract-hook=[ -z "$MMDEBSTRAP_APT_CONFIG" ] || APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get --simulate -qq install 'hello' 'tar' > /dev/null`, `--aptopt=A "b"`, `--aptopt=Acquire::Check-Valid-Until "false"`,
		`--customize-hook=chroot "$1" /bin/sh -ec 'echo it'\''s'`, "--customize-hook=sync-in '/nowhere/a b' '/opt/a'",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if n := len(got); got[n-3] != "bookworm" || got[n-2] != "-" || got[n-1] != "http://m/20250520T000000Z" {
		t.Errorf("got the end %q", got[n-3:])
	}
}

// TestPackagesAreWhole unless a slim image is wanted.
func TestPackagesAreWhole(t *testing.T) {
	whole, slim := strings.Join(Command(spec.Build{Debian: "bookworm"}, Options{}), "\n"), strings.Join(Command(spec.Build{Debian: "bookworm", Slim: true}, Options{}), "\n")
	if strings.Contains(whole, "path-exclude") || !strings.Contains(whole, `Install-Recommends "true"`) {
		t.Errorf("by default: %s", whole)
	}
	for _, path := range []string{"man", "locale", "doc"} {
		if !strings.Contains(slim, "path-exclude=/usr/share/"+path+"/*") {
			t.Errorf("%s stays in a slim image", path)
		}
	}
	if !strings.Contains(slim, `Install-Recommends "false"`) {
		t.Errorf("slim: %s", slim)
	}
}

func TestLongScriptGoesByTheEnvironment(t *testing.T) {
	b := spec.Build{Debian: "bookworm", Run: []string{"true", strings.Repeat("true\n", 200), "true\ntrue", strings.Repeat("x", 401)}}
	got := strings.Join(Command(b, Options{Arch: "amd64"}), " ")
	if !strings.Contains(got, `/bin/sh -ec 'true'`) || !strings.Contains(got, `/bin/sh -ec "$BEE_RUN_1"`) || strings.Contains(got, "true\ntrue") || strings.Contains(got, "xxx") {
		t.Errorf("got %q", got)
	}
	if env := Environment(b); len(env) != 3 || env[0] != "BEE_RUN_1="+b.Run[1] {
		t.Errorf("environment: %q", env)
	}
}

func TestDateOfRelease(t *testing.T) {
	got, err := parseDate("Origin: Debian\nDate: Sat, 17 May 2025 08:45:21 UTC\n")
	if err != nil || got.Unix() != 1747471521 {
		t.Errorf("got %v, %v", got, err)
	}
}

// What mmdebstrap wrote about a build whose step had failed.
func TestOnlyChatterIsPassedOver(t *testing.T) {
	for _, l := range []string{
		"umount: /tmp/mmdebstrap.tqHJpN_dpd/proc: not mounted.", "W: umount /proc failed: 8192", "W: umount ./dev/zero failed: 8192",
		"W: cannot unlink ./dev/zero: No such file or directory", "W: cannot rmdir ./dev/pts/: No such file or directory", "W: unlink /dev/ptmx",
		"Get:79 http://deb.debian.org/debian bookworm/main amd64 libpam0g amd64 1.5.2-6+deb12u2 [92.1 kB]", "Fetched 46.6 MB in 0s (117 MB/s)",
		"I: automatically chosen mode: unshare", "I: using /tmp/mmdebstrap.pgIcqOKtIL as tempdir", "I: running --customize-hook in shell: sh -c 'x' exec /tmp/y",
		"I: success in 578.9236 seconds",
	} {
		if !Chatter(l) {
			t.Errorf("%q is told", l)
		}
	}
	for _, l := range []string{
		"E: setup failed: E: hookhelper failed: E: path does not exist: /tmp/x/opt/src", "ring.c:3: error: expected ';'",
		"W: unlink /opt/x", "W: Download is performed unsandboxed", "E: Unable to locate package umount",
		"I: running apt-get update...", "I: downloading packages with apt...", "I: installing essential packages...", "Getting the data", "Fetched it",
	} {
		if Chatter(l) {
			t.Errorf("%q is passed over", l)
		}
	}
}

// TestAPackageLayerStandsForThePackages.
func TestAPackageLayerStandsForThePackages(t *testing.T) {
	b := spec.Build{Debian: "bookworm", Packages: []string{"hello"}, Run: []string{"true"}, Env: map[string]string{"A": "b"}, Workdir: "/x"}
	got := Command(b, Options{Base: "/c/a b.tar"})
	if !slices.Contains(got, "--setup-hook=tar-in '/c/a b.tar' /") || !slices.Contains(got, "--variant=custom") || strings.Contains(strings.Join(got, "\n"), "hello") {
		t.Errorf("got %q", got)
	}
	if p := Packages(b); len(p.Run) > 0 || p.Env != nil || p.Workdir != "" || len(p.Packages) != 1 {
		t.Errorf("the part that packages are is %+v", p)
	}
}
