package cloud

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// pushing returns an installation's view on the images of an account.
func pushing(a *account, dir, installation string) machineImages {
	return machineImages{Settings{Name: "site", Dir: filepath.Join(dir, "site"), Installation: installation}, a.Images()}
}

func diskOf(name, digest string) driver.MachineDisk {
	return driver.MachineDisk{Name: name, Digest: "sha256:" + strings.Repeat(digest, 64), Arch: "amd64", User: "bee", Size: 100}
}

// states are the images of an account: name, the first of the digest, installation, and how far they have come.
func (a *account) states() (all []string) {
	for _, i := range a.images {
		state := "part"
		switch {
		case i.Whole:
			state = "whole"
		case i.Uploaded:
			state = "uploaded"
		}
		all = append(all, i.Name+" "+i.Digest[7:8]+" "+i.Installation+" "+state)
	}
	slices.Sort(all)
	return all
}

func noReport(int64, int64) {}

// TestPush: equal content is uploaded once for each installation and name, and a name means what was pushed last.
func TestPush(t *testing.T) {
	a, dir := newAccount(), t.TempDir()
	mine, other := pushing(a, dir, "mine"), pushing(a, dir, "other")
	push := func(m machineImages, d driver.MachineDisk, wasThere bool) driver.MachineImage {
		t.Helper()
		before := a.uploads
		i, was, err := m.Push(t.Context(), d, noReport)
		if err != nil || was != wasThere || !i.Whole || !i.Own || a.uploads-before != map[bool]int{false: 1}[was] {
			t.Errorf("%+v, %v, %v, and %d uploads", i, was, err, a.uploads-before)
		}
		return i
	}
	chosen := func(m machineImages, name string) string {
		t.Helper()
		i, err := m.s.Chosen(a.images, name, "amd64")
		if err != nil {
			t.Error(err)
			return ""
		}
		return i.Digest[7:8] + " " + i.Installation
	}
	push(mine, diskOf("hpc", "1"), false)
	push(mine, diskOf("hpc", "1"), true)
	push(mine, diskOf("hpc", "2"), false)
	if got := chosen(mine, "hpc"); got != "2 mine" {
		t.Errorf("after another push it is %s", got)
	}
	push(mine, diskOf("hpc", "1"), true)
	if got := chosen(mine, "hpc"); got != "1 mine" {
		t.Errorf("after a push of the first it is %s", got)
	}
	push(other, diskOf("hpc", "1"), false)
	push(other, diskOf("else", "1"), false)
	for of, want := range map[string]string{"mine": "1 mine", "other": "1 other", "third": "1 other"} {
		if got := chosen(pushing(a, dir, of), "hpc"); got != want {
			t.Errorf("of %s it is %s, expected %s", of, got, want)
		}
	}
	if _, err := mine.s.Chosen(a.images, "hpcc", "amd64"); !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), `"hpc", "else"`) || !strings.Contains(core.Remedy(err), "bee cloud image push hpcc --site site") {
		t.Errorf("of another name: %v; %s", err, core.Remedy(err))
	}
	if _, err := mine.s.Chosen(a.images, "hpc", "arm64"); !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), "amd64") {
		t.Errorf("of another architecture: %v", err)
	}
	if _, _, err := mine.Remove(t.Context(), "else"); !core.IsKind(err, core.NotFound) {
		t.Errorf("another installation's: %v", err)
	}
	if removed, others, err := mine.Remove(t.Context(), "hpc"); err != nil || len(removed) != 2 || len(others) != 1 || others[0].Installation != "other" {
		t.Errorf("%+v, %+v, %v", removed, others, err)
	}
	if want := []string{"else 1 other whole", "hpc 1 other whole"}; !slices.Equal(a.states(), want) {
		t.Errorf("there are %q, expected %q", a.states(), want)
	}
	if _, _, err := pushing(a, dir, "").Push(t.Context(), diskOf("hpc", "1"), noReport); err == nil {
		t.Error("it is pushed for nobody")
	}
}

// TestPushIsCutShort has a push end at each of its calls, before it or after. The next one leaves the image alone, and of what
// another installation is about to upload all.
func TestPushIsCutShort(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n, again := 0, true; again; n++ {
			a, dir := newAccount(), t.TempDir()
			a.images = []driver.MachineImage{{ID: "theirs", Name: "hpc", Digest: diskOf("", "9").Digest, Installation: "other", Arch: "amd64"}}
			m := pushing(a, dir, "mine")
			push := func(d driver.MachineDisk) bool {
				return crashes(t, func() error {
					_, _, err := m.Push(t.Context(), d, noReport)
					return err
				})
			}
			a.left, a.after = n, after
			again = push(diskOf("hpc", "1"))
			a.left = -1
			if n%2 == 0 { // of another disk
				if push(diskOf("new", "2")) {
					t.Fatal("it crashes")
				}
			}
			if push(diskOf("hpc", "1")) {
				t.Fatal("it crashes")
			}
			want := []string{"hpc 1 mine whole", "hpc 9 other part"}
			if n%2 == 0 {
				want = append(want, "new 2 mine whole")
			}
			if !slices.Equal(a.states(), want) {
				t.Errorf("after an end at call %d there are %q, expected %q", n, a.states(), want)
			}
			if left, err := m.Clean(t.Context(), false); err != nil || len(left) > 0 {
				t.Errorf("after an end at call %d, %+v is left, %v", n, left, err)
			}
		}
	}
}

// TestClean removes what uploads have left, and nothing during one. An error leaves what the next push continues, and
// an interrupt nothing.
func TestClean(t *testing.T) {
	a, dir := newAccount(), t.TempDir()
	m := pushing(a, dir, "mine")
	broken := &core.Error{Kind: core.Transient, Op: "send", Err: errors.New("the connection broke")}
	for name, c := range map[string]struct {
		upload, register error
		interrupted      bool
		left             []string
	}{
		"while it is sent":         {upload: broken},
		"once it is sent":          {register: broken, left: []string{"hpc 1 mine uploaded"}},
		"by an interrupt, as sent": {register: context.Canceled, interrupted: true},
	} {
		a.images, a.uploadError, a.registerError = nil, c.upload, c.register
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := m.Push(ctx, diskOf("hpc", "1"), func(int64, int64) {
			if c.interrupted {
				cancel()
			}
			if left, err := m.Clean(ctx, false); err != nil && ctx.Err() == nil || len(left) > 0 {
				t.Errorf("%s: while it is sent, %+v was removed, %v", name, left, err)
			}
			if removed, _, err := m.Remove(ctx, "hpc"); !core.IsKind(err, core.Busy) || len(removed) > 0 {
				t.Errorf("%s: while it is sent, its user has removed %+v, %v", name, removed, err)
			}
		})
		cancel()
		if err == nil || !c.interrupted && !core.IsKind(err, core.Transient) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(a.states(), c.left) {
			t.Errorf("%s: left are %q, expected %q", name, a.states(), c.left)
		}
		if left, err := m.Clean(t.Context(), true); err != nil || len(left) != len(c.left) || len(a.images) != len(c.left) {
			t.Errorf("%s: it would remove %+v of %q, %v", name, left, a.states(), err)
		}
		if _, err := m.Clean(t.Context(), false); err != nil || len(a.images) > 0 {
			t.Errorf("%s: left are %q, %v", name, a.states(), err)
		}
	}
	a.registerError = nil
	a.images = []driver.MachineImage{{ID: "x", Name: "hpc", Digest: diskOf("", "1").Digest, Arch: "amd64", Installation: "mine", Uploaded: true}}
	uploads := a.uploads
	if i, was, err := m.Push(t.Context(), diskOf("hpc", "1"), noReport); err != nil || was || i.ID != "x" || a.uploads != uploads {
		t.Errorf("what is there is sent again: %+v, %v, %v", i, was, err)
	}
}

// TestDeactivated: an image that its user has deactivated is listed, and neither booted, nor removed as what an upload has left,
// nor pushed again beside itself.
func TestDeactivated(t *testing.T) {
	a, dir := newAccount(), t.TempDir()
	m := pushing(a, dir, "mine")
	for _, digest := range []string{"1", "2"} {
		if _, _, err := m.Push(t.Context(), diskOf("hpc", digest), noReport); err != nil {
			t.Fatal(err)
		}
	}
	a.images[0].Whole, a.images[0].Uploaded, a.images[0].State = false, false, "deactivated"
	want := a.states()
	if left, err := m.Clean(t.Context(), false); err != nil || len(left) > 0 {
		t.Errorf("%+v, %v", left, err)
	}
	if _, _, err := m.Push(t.Context(), diskOf("else", "3"), noReport); err != nil {
		t.Error(err)
	}
	if _, _, err := m.Push(t.Context(), diskOf("hpc", "1"), noReport); !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), "deactivated") || !strings.Contains(core.Remedy(err), "bee cloud image rm hpc --site site") {
		t.Errorf("%v; %s", err, core.Remedy(err))
	}
	if got := a.states(); !slices.Equal(got, append([]string{"else 3 mine whole"}, want...)) {
		t.Errorf("there are %q, and were %q", got, want)
	}
	if i, err := m.s.Chosen(a.images, "hpc", "amd64"); err != nil || i.Digest != diskOf("hpc", "2").Digest {
		t.Errorf("%+v, %v", i, err)
	}
	if removed, others, err := m.Remove(t.Context(), "hpc"); err != nil || len(removed) != 2 || len(others) > 0 {
		t.Errorf("%+v, %+v, %v", removed, others, err)
	}
}
