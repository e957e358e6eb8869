package image

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

func TestAccountOfAnImage(t *testing.T) {
	tree := t.TempDir()
	for path, text := range map[string]string{
		"usr/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1234:1235:App:/home/app:/bin/sh\nalias:x:0:0::/:/bin/sh\n",
		"etc/group":      "root:x:0:\nteam:x:77:app\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// As a process inside would follow it, not as one outside.
	if err := os.Symlink("/usr/etc/passwd", filepath.Join(tree, "etc/passwd")); err != nil {
		t.Fatal(err)
	}
	app := core.Account{UID: 1234, GID: 1235, Name: "app", Home: "/home/app"}
	team := app
	team.GID = 77
	for user, want := range map[string]*core.Account{
		"app": &app, "1234": &app, "app:team": &team, "1234:77": &team, "1234:team": &team,
		"4321": {UID: 4321}, "4321:7": {UID: 4321, GID: 7},
		"root": nil, "0": nil, "0:77": nil, "alias": nil,
	} {
		got, err := accountIn(tree, user)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("USER %s: %+v, %v, want %+v", user, got, err, want)
		}
	}
	for _, user := range []string{"nobody", "app:nogroup", "-1", "99999999999", "a:b:c"} {
		if got, err := accountIn(tree, user); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("USER %s: %+v, %v", user, got, err)
		}
	}
	fifo := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(fifo, "etc"), 0o755), unix.Mkfifo(filepath.Join(fifo, "etc/passwd"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if got, err := accountIn(fifo, "app"); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("accounts that nobody writes: %+v, %v", got, err)
	}
	if got, err := accountIn(t.TempDir(), "7:8"); err != nil || got.UID != 7 || got.GID != 8 {
		t.Errorf("without accounts: %+v, %v", got, err)
	}
}
