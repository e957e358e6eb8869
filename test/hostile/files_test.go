package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit/hostilesite"
)

// TestSmallFilesOfASiteMayBeAnything: a result, a journal and logs that are no plain files
// neither hang nor fill the controller, and nothing of this machine is shown by them.
func TestSmallFilesOfASiteMayBeAnything(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a-secret-of-this-machine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]string{
		"a FIFO":               `mkfifo "$P"`,
		"a link to /dev/zero":  `ln -s /dev/zero "$P"`,
		"a link to a secret":   `ln -s ` + secret + ` "$P"`,
		"a directory":          `mkdir -p "$P/d"`,
		"a file of a terabyte": `truncate -s 1T "$P"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// It still runs when its files are looked at: a head that ends puts its true result in place of these.
			b, job := busyboxJob(t, "run: sleep 600")
			lies := []hostilesite.Lie{{Of: hostilesite.Head, Call: "watch", Raw: []byte{}}} // bee has to look at the files
			for _, file := range []string{"result.json", "events.jsonl", "node.log", "output.log"} {
				lies = append(lies, hostilesite.Lie{Of: hostilesite.Agent, Call: "fetch", Path: "/" + file, Run: `rm -rf "$P"; ` + put})
			}
			hostilesite.Start(t, b, lies...)
			r := b.Try("run", job)
			id := strings.TrimSpace(b.Must("ps", "-aq"))
			if v := b.Try("show", "--json", id); r.Code != 206 || !strings.Contains(v.Stdout, `"lost"`) {
				t.Errorf("ended with %d\n%s\n%s", r.Code, r.Stderr, v.Stdout)
			}
			for _, args := range [][]string{{"logs", id}, {"logs", "--node", "0", id}, {"show", id}} {
				if r := b.Try(args...); strings.Contains(r.Stdout+r.Stderr, "a-secret-of-this-machine") {
					t.Errorf("%q shows it", args)
				}
			}
			b.Must("rm", id)
		})
	}
}
