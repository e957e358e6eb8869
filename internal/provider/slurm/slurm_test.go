package slurm

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// nodeArg makes the test binary a stand-in node.
const nodeArg = "stand-in-node"

// TestMain lets the test binary be what the bee binary is in real use: the
// agent on the login node, those on the compute nodes, and there a node.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case nodeArg:
			os.Exit(drivertest.StandInNode())
		case HostArg:
			os.Exit(HostMain(os.Args[2:]))
		case ssh.RemoteArg:
			os.Exit(ssh.Agent{HasImage: func(string, string) bool { return false },
				Provider: func(raw json.RawMessage) (driver.Provider, error) {
					var s Settings
					if err := json.Unmarshal(raw, &s); err != nil {
						return nil, err
					}
					return New(s)
				}}.Main())
		}
	}
	os.Exit(m.Run())
}

// site gives a provider of the farm behind its login node: the one way in,
// as it has a network of its own.
func site(t testing.TB, f *slurmfarm.Farm, s Settings) driver.Provider {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if s.Name == "" {
		s.Name = "cluster"
	}
	s.Scratch = filepath.Join(f.Dir, "scratch")
	s.HostArgv, s.NodeArgv = []string{self, HostArg}, []string{self, nodeArg}
	inside, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ssh.NewLogin(ssh.Settings{Name: s.Name, Hosts: []string{f.Names[0]}, Client: filepath.Join(f.Bin, "ssh"),
		Site: func(string) json.RawMessage {
			raw, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		BinaryFor: func(arch string) (string, error) {
			if arch == runtime.GOARCH {
				return self, nil
			}
			return "", os.ErrNotExist
		}}, inside.Info())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	f := slurmfarm.Start(t, 2)
	drivertest.ProviderSuite{Nodes: 2, New: func(t testing.TB) driver.Provider { return site(t, f, Settings{}) }}.Run(t)
	if out, err := f.Do("squeue", "--noheader"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in the queue: %v\n%s", err, out)
	}
}

var _ = context.Background
var _ = core.Lost
var _ = time.Now
