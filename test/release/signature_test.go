package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/bee-hpc/bee/internal/testkit"
)

// signingKey has releases signed by a key of this test.
func signingKey(t *testing.T) minisign.PublicKey {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BEE_SIGNING_KEY", file)
	return public
}

// testSignature has install.sh check signatures, by minisign, by OpenSSL and with neither, also of
// sums that were changed or are not signed.
func testSignature(t *testing.T, dist string, key minisign.PublicKey) {
	sums := filepath.Join(dist, "SHA256SUMS")
	must(t, exec.CommandContext(t.Context(), testkit.RequireTool(t, "minisign"), "-Vm", sums, "-P", key.String()))

	changed, unsigned := filepath.Join(t.TempDir(), "dist"), filepath.Join(t.TempDir(), "dist")
	for _, into := range []string{changed, unsigned} {
		if err := os.CopyFS(into, os.DirFS(dist)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(unsigned, "SHA256SUMS.minisig")); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	raw[0] ^= 1
	if err := os.WriteFile(filepath.Join(changed, "SHA256SUMS"), raw, 0o644); err != nil {
		t.Fatal(err)
	}

	neither := []string{"sh", "sed", "grep", "uname", "tar", "gzip", "sha256sum", "mktemp", "mkdir", "cp", "mv", "rm", "rmdir", "dirname", "head", "tail", "base64"}
	for _, c := range []struct {
		name, from string
		tools      []string
		works      bool
		prints     string
	}{
		{"minisign", dist, append(neither, "minisign"), true, "Next: bee doctor"},
		{"OpenSSL", dist, append(neither, "openssl"), true, "Next: bee doctor"},
		{"neither", dist, neither, true, "OpenSSL"},
		{"minisign, changed", changed, append(neither, "minisign"), false, "SHA256SUMS"},
		{"OpenSSL, changed", changed, append(neither, "openssl"), false, "SHA256SUMS"},
		{"unsigned", unsigned, append(neither, "openssl"), false, "SHA256SUMS.minisig"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, prefix := t.TempDir(), t.TempDir()
			for _, tool := range c.tools {
				if err := os.Symlink(testkit.RequireTool(t, tool), filepath.Join(path, tool)); err != nil {
					t.Fatal(err)
				}
			}
			i := exec.CommandContext(t.Context(), filepath.Join(path, "sh"), filepath.Join(dist, "install.sh"), "--from", c.from, "--prefix", prefix)
			i.Env = []string{"PATH=" + path}
			out, err := i.CombinedOutput()
			_, missing := os.Stat(filepath.Join(prefix, "bin", "bee"))
			if (err == nil) != c.works || (missing == nil) != c.works || !strings.Contains(string(out), c.prints) {
				t.Errorf("install.sh: %v, %v\n%s", err, missing, out)
			}
		})
	}
}
