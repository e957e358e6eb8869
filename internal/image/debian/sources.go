package debian

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
)

// Sources gives where a build's packages come from, as mmdebstrap takes it: the
// mirror that it names; else, of a past date, Debian's own archive of those; else
// as on this host. None stand for mmdebstrap's own choice.
func Sources(b spec.Build) []string {
	switch {
	case b.Mirror != "":
		return []string{strings.ReplaceAll(b.Mirror, "$SNAPSHOT", b.Snapshot)}
	case b.Snapshot != "":
		return snapshotSources(b.Debian, b.Snapshot)
	}
	return hostSources(b.Debian)
}

// snapshots is where Debian keeps what its mirrors had at each date, and keyring
// the keys by which that is signed, from the package of the same name.
const snapshots, keyring = "http://snapshot.debian.org/archive/", "/usr/share/keyrings/debian-archive-keyring.gpg"

// snapshotSources are those of a suite at a date, with its updates and security
// fixes where it has such.
func snapshotSources(suite, date string) []string {
	deb := "deb "
	if _, err := os.Stat(keyring); err == nil {
		deb += "[signed-by=" + keyring + "] "
	}
	main := deb + snapshots + "debian/" + date + " "
	lines := []string{main + suite + " main"}
	if suite == "sid" || suite == "unstable" {
		return lines
	}
	return append(lines, main+suite+"-updates main", deb+snapshots+"debian-security/"+date+" "+suite+"-security main")
}

// hostSources gives this host's own package sources of a suite, with its updates
// and security fixes, in apt's one-line form. There are none where the host is
// no Debian of that suite.
func hostSources(suite string) []string {
	files := []string{"/etc/apt/sources.list"}
	for _, pattern := range []string{"/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	var all []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, line := range parseSources(string(raw), suite) {
			if !slices.Contains(all, line) {
				all = append(all, line)
			}
		}
	}
	// Without the suite itself its updates are no use.
	for _, line := range all {
		if dropOptions(strings.Fields(line)[1:])[1] == suite {
			return all
		}
	}
	return nil
}

// parseSources reads a sources file of either format.
func parseSources(text, suite string) []string {
	wanted := []string{suite, suite + "-updates", suite + "-security"}
	var out []string
	// With the key named, mmdebstrap need not look for it.
	add := func(uri, name string, components []string, key string) {
		if slices.Contains(wanted, name) && slices.Contains(components, "main") {
			if strings.HasPrefix(key, "/") {
				uri = "[signed-by=" + key + "] " + uri
			}
			out = append(out, "deb "+uri+" "+name+" main")
		}
	}
	var uris, suites, components []string
	key := ""
	types, enabled := "deb", true
	stanza := func() {
		if enabled && slices.Contains(strings.Fields(types), "deb") {
			for _, u := range uris {
				for _, n := range suites {
					add(u, n, components, key)
				}
			}
		}
		uris, suites, components, types, enabled, key = nil, nil, nil, "deb", true, ""
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
			stanza()
		case f[0] == "deb":
			if rest := dropOptions(f[1:]); len(rest) >= 3 {
				add(rest[0], rest[1], rest[2:], keyIn(f[1:]))
			}
		case f[0] == "Types:":
			types = strings.Join(f[1:], " ")
		case f[0] == "URIs:":
			uris = f[1:]
		case f[0] == "Suites:":
			suites = f[1:]
		case f[0] == "Components:":
			components = f[1:]
		case f[0] == "Signed-By:" && len(f) == 2:
			key = f[1]
		case f[0] == "Enabled:":
			enabled = len(f) > 1 && f[1] != "no"
		}
	}
	stanza()
	return out
}

// dropOptions drops [arch=amd64 signed-by=…].
func dropOptions(f []string) []string {
	if len(f) == 0 || !strings.HasPrefix(f[0], "[") {
		return f
	}
	for n, word := range f {
		if strings.HasSuffix(word, "]") {
			return f[n+1:]
		}
	}
	return nil
}

// keyIn finds signed-by among such options.
func keyIn(f []string) string {
	if len(f) == 0 || !strings.HasPrefix(f[0], "[") {
		return ""
	}
	for _, word := range f {
		if key, ok := strings.CutPrefix(strings.Trim(word, "[]"), "signed-by="); ok {
			return key
		}
		if strings.HasSuffix(word, "]") {
			break
		}
	}
	return ""
}

// AptSettings gives, of what `apt-config dump` wrote, how this host reaches its
// mirror.
func AptSettings(dump string) []string {
	var out []string
	for _, line := range strings.Split(dump, "\n") {
		key, _, _ := strings.Cut(line, " ")
		lower := strings.ToLower(key)
		if strings.HasPrefix(lower, "acquire::") && (strings.Contains(lower, "proxy") || strings.Contains(lower, "::cainfo") || strings.Contains(lower, "::verify-")) {
			out = append(out, strings.TrimSuffix(line, ";"))
		}
	}
	return out
}
