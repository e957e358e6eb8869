package mount

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// nodeArg makes the test binary the node of an attempt on a site.
const nodeArg = "stand-in-node"

// standInNode mounts a volume in a directory, as a node does on a site, and waits to be killed.
func standInNode(base string) int {
	binary, err := os.Executable()
	if err == nil {
		far := filepath.Join(base, "far")
		_, err = Begin(context.Background(), Options{
			Volumes: filepath.Join(base, "volumes"), Remote: far, At: remote.Place{Dir: far}, Dir: filepath.Join(base, "mounts", "run"), Room: LeastRoom,
			Alone: true, Owner: core.Owner{User: "ann", Run: "run", Attempt: 1}, Binary: binary,
		})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("mounted")
	select {}
}

// TestAPublicMountEndsWithItsNode: a node on a site is killed, of which nothing is private. Its client, the mount and
// the I/O process end, although a program uses the mount, and the remote has what was written.
func TestAPublicMountEndsWithItsNode(t *testing.T) {
	testkit.RequireFUSE(t)
	t.Parallel()
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("used %v", used), func(t *testing.T) {
			t.Parallel()
			base, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			near := filepath.Join(base, "mounts", "run")
			if err := os.Mkdir(filepath.Join(base, "far"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if at, err := At(near); err == nil && at != "" {
					core.BestEffort(detach(context.Background(), near))
				}
			})
			node := exec.Command(os.Args[0], nodeArg, base)
			out, err := node.StdoutPipe()
			if err == nil {
				err = node.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "mounted\n" {
				t.Fatalf("the node: %q, %v", line, err)
			}
			f, err := os.Create(filepath.Join(near, "f"))
			if err == nil {
				_, err = f.WriteString("text")
			}
			if err == nil {
				err = f.Sync()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if !used {
				f.Close()
			}
			testkit.Kill(node.Process.Pid)
			core.BestEffort(node.Wait())
			testkit.Eventually(t, time.Minute, func() error {
				at, err := At(near)
				if err == nil && at != "" {
					err = errors.New("it is mounted")
				}
				left, rerr := os.ReadDir(filepath.Join(base, "volumes"))
				if err = errors.Join(err, rerr); err == nil && len(left) > 0 {
					err = fmt.Errorf("left: %v", left)
				}
				return err
			})
			if _, err := os.Lstat(near); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its directory is left: %v", err)
			}
			if got, err := os.ReadFile(filepath.Join(base, "far", "f")); err != nil || string(got) != "text" {
				t.Errorf("the remote has %q, %v", got, err)
			}
		})
	}
}
