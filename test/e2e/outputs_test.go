package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestOutputsOfAnyName: outputs are collected with any name, as sparse as they are, and without
// set-user-id bits, by which a site would give others the rights of its user.
func TestOutputsOfAnyName(t *testing.T) {
	b, job := busyboxJob(t, "volume: /data", `outputs: [{from: /data/o, to: ./r}, {from: '/data/o/\[x\].txt', to: ./r2}, {from: /data/o/-dash, to: "./r 3/ü"}]`, "run: |",
		`  mkdir -p /data/o/empty; cd /data/o; echo 1 >'a b.txt'; echo 2 >'[x].txt'; echo 3 >./-dash; echo 4 >"$(printf 'new\nline')"; echo 5 >"$(printf 'lat\351')"; echo 6 >'star*'`,
		"  echo 7 >set; chmod 6755 set; dd if=/dev/zero of=sparse bs=1 count=1 seek=5368709119 2>/dev/null")
	b.Must("run", job)
	for name, want := range map[string]string{"r/o/a b.txt": "1\n", "r2/[x].txt": "2\n", "r 3/ü/-dash": "3\n", "r/o/new\nline": "4\n", "r/o/lat\xe9": "5\n", "r/o/star*": "6\n"} {
		if got := b.Read(name); got != want {
			t.Errorf("%q holds %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]os.FileMode{"r/o/set": 0o755, "r/o/empty": os.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(b.Work, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, want %v: %v", name, info.Mode(), want, err)
		}
	}
	if info, err := os.Stat(filepath.Join(b.Work, "r/o/sparse")); err != nil || info.Size() != 5<<30 || sysOf(info).Blocks > 20_000 {
		t.Errorf("the sparse file: %v, %v", info, err)
	}
}

// TestOutputsThatTheirOwnerMayNotReadComeHome: else the run would wait for them for ever.
func TestOutputsThatTheirOwnerMayNotReadComeHome(t *testing.T) {
	testkit.AsRootToo(t)
	b, job := busyboxJob(t, "outputs: [{from: '/work/*', to: ./results}]",
		"run: 'mkdir /work/d; echo x > /work/d/f; echo y > /work/g; chmod 000 /work/d/f /work/d /work/g'")
	b.Must("run", job)
	if got := b.Read("results/d/f") + b.Read("results/g"); got != "x\ny\n" {
		t.Errorf("got %q", got)
	}
}
