package mountns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		var err error
		switch os.Args[1] {
		case "outer":
			var code int
			if code, err = Run([]string{"test", "inner", os.Args[2]}, []byte("input")); err == nil {
				os.Exit(code)
			}
		case "inner":
			if err = Enter(); err == nil {
				err = inner(os.Args[2])
			}
		case "server":
			err = serve(os.Args[2])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(7)
	}
	os.Exit(m.Run())
}

// inner mounts a directory, and reports what it and the processes that it starts see there.
func inner(dir string) error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil || string(input) != "input" {
		return fmt.Errorf("the input is %q: %w", input, errors.Join(err, errors.New("expected another one")))
	}
	f, err := Mount(filepath.Join(dir, "at"), "bee-test", "default_permissions")
	if err != nil {
		return err
	}
	server := exec.Command("/proc/self/exe", "server", dir)
	server.ExtraFiles = []*os.File{f}
	if Outside(func() { err = server.Start() }); err != nil {
		return err
	}
	f.Close()
	for _, how := range []string{"child", "outside"} {
		c := exec.Command("sh", "-c", "cat "+dir+"/at/file; grep CapEff /proc/self/status")
		run := func(f func()) { f() }
		if how == "outside" {
			run = Outside
		}
		var out strings.Builder
		c.Stdout, c.Stderr = &out, &out
		if run(func() { err = c.Start() }); err != nil {
			return err
		}
		c.Wait() //nolint:errcheck // it may have been killed
		fmt.Printf("%s: %q\n", how, out.String())
	}
	fmt.Println("ready")
	time.Sleep(time.Minute) // this is the program that the test ends
	return nil
}

// oneFile is a directory with one file.
type oneFile struct{ fs.Inode }

func (d *oneFile) OnAdd(ctx context.Context) {
	f := &fs.MemRegularFile{Data: []byte("content"), Attr: fuse.Attr{Mode: 0o644, Owner: *fuse.CurrentOwner()}}
	d.AddChild("file", d.NewPersistentInode(ctx, f, fs.StableAttr{}), false)
}

// serve serves a directory with one file, until it is unmounted.
func serve(dir string) error {
	server, err := fs.Mount("/dev/fd/3", &oneFile{}, &fs.Options{MountOptions: fuse.MountOptions{Logger: log.New(io.Discard, "", 0)}})
	if err != nil {
		return err
	}
	server.Wait()
	return os.WriteFile(filepath.Join(dir, "ended"), nil, 0o600)
}

// TestMountsOfAProcess: children of a process see what it mounts, and those that it starts outside do not.
// The server, which is one of these, ends with the process.
func TestMountsOfAProcess(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "at"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "outer", dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "ready"; {
		got += lines.Text() + "\n"
	}
	for _, want := range []string{`child: "contentCapEff:\t0000000000000000\n"`, `outside: "cat: `} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if err := c.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.Wait() //nolint:errcheck // it may have been killed
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := os.Stat(filepath.Join(dir, "ended"))
		return err
	})
}
