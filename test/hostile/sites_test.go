package hostile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestASitesFileThatOthersMayWrite runs no command: by its own mode, or by that of a
// directory that leads to it.
func TestASitesFileThatOthersMayWrite(t *testing.T) {
	for name, c := range map[string]struct {
		open    string // what others may write
		refused bool
	}{
		"nothing": {}, "the file": {"lab/sites.yaml", true}, "its directory": {"lab", true}, "a directory above": {".", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := testkit.NewBee(t)
			ran := filepath.Join(b.Dir, "ran")
			sites := b.File("lab/sites.yaml", "sites: [{name: far, provider: ssh, hosts: [far.invalid], ssh_options: {ProxyCommand: 'touch "+ran+"; exit 1'}}]\n")
			if c.open != "" {
				path := filepath.Join(b.Work, c.open)
				info, err := os.Stat(path)
				if err == nil {
					err = os.Chmod(path, info.Mode()|0o002)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			r := b.Try("--sites", sites, "plan", b.File("job.yaml", "image: debian:12\nsites: [far]\nrun: 'true'\n"))
			if refused := r.Code == 201; refused != c.refused {
				t.Errorf("refused is %v, want %v: %+v", refused, c.refused, r)
			}
			if _, err := os.Stat(ran); (err == nil) == c.refused {
				t.Errorf("its command ran: %v", err == nil)
			}
		})
	}
}
