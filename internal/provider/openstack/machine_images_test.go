package openstack_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// ownDisk returns a disk, and its content.
func ownDisk(name, mark string) (driver.MachineDisk, []byte) {
	content := bytes.Repeat([]byte(mark), 300_000)
	sum := sha256.Sum256(content)
	return driver.MachineDisk{Name: name, Digest: "sha256:" + hex.EncodeToString(sum[:]), Arch: "amd64", User: "bee", Content: bytes.NewReader(content), Size: int64(len(content))}, content
}

func noReport(int64, int64) {}

const sendImage = "PUT /image/v2/images/{id}/file"

// TestPushImage uploads a disk to Glance, which compares it, and rents machines of it by its name. What is another's stays.
func TestPushImage(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	dir := t.TempDir()
	s.Foreign(map[string]any{"bee_image": "hpc", "bee_installation": "other", "bee_pushed": "2020-01-01T00:00:00Z", "os_admin_user": "bee", "architecture": "x86_64"})
	foreign := s.Images()
	mine := func(c *openstack.Settings) { c.Cloud.Installation = "mine" }
	images := site(t, s, dir, mine).Inventory().Images()
	d, content := ownDisk("hpc", "first")
	s.Expire()
	i, was, err := images.Push(t.Context(), d, noReport)
	if err != nil || was || !i.Whole || !i.Own {
		t.Fatalf("%+v, %v, %v", i, was, err)
	}
	properties, got := s.ImageOf("bee-hpc-")
	if !bytes.Equal(got, content) {
		t.Errorf("Glance has %d bytes, expected %d", len(got), len(content))
	}
	for key, want := range map[string]any{"hw_firmware_type": "uefi", "architecture": "x86_64", "disk_format": "raw", "visibility": "private", "os_admin_user": "bee", "min_disk": 1.0} {
		if properties[key] != want {
			t.Errorf("%s is %v, expected %v", key, properties[key], want)
		}
	}
	if list, err := images.List(t.Context()); err != nil || len(list) != 2 || !slices.ContainsFunc(list, func(l driver.MachineImage) bool { return l.Own && l.Whole && l.Digest == d.Digest && l.Arch == "amd64" }) {
		t.Errorf("%+v, %v", list, err) // and not the one that another project shares
	}
	sent := s.Calls(sendImage)
	if i, was, err := images.Push(t.Context(), d, noReport); err != nil || !was || s.Calls(sendImage) != sent {
		t.Errorf("again: %+v, %v, %v", i, was, err)
	}
	second, _ := ownDisk("hpc", "other")
	if _, _, err := images.Push(t.Context(), second, noReport); err != nil {
		t.Fatal(err)
	}
	if back, was, err := images.Push(t.Context(), d, noReport); err != nil || !was || back.ID != i.ID {
		t.Errorf("back to the first: %+v, %v, %v", back, was, err)
	}
	p := site(t, s, dir, func(c *openstack.Settings) {
		mine(c)
		c.Image, c.User = "bee:hpc", machines.User(t)
	})
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("own"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if rented := s.Bodies("POST /compute/v2.1/servers"); !strings.Contains(rented[len(rented)-1], i.ID) {
		t.Errorf("machines boot another image than %s: %s", i.ID, rented[len(rented)-1])
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	warning := func() string {
		t.Helper()
		facts, err := site(t, s, dir, func(c *openstack.Settings) { mine(c); c.Image = "bee:hpc" }).Probe(t.Context())
		if err != nil || !facts.Usable {
			t.Errorf("%+v, %v", facts, err)
		}
		return facts.Warning
	}
	if got := warning(); got != "" {
		t.Errorf("of an own image: %s", got)
	}
	s.Become("bee-hpc-", "deactivated")
	if left, err := images.Clean(t.Context(), false); err != nil || len(left) > 0 {
		t.Errorf("deactivated images are taken for what an upload has left: %+v, %v", left, err)
	}
	if removed, _, err := images.Remove(t.Context(), "hpc"); err != nil || len(removed) != 2 {
		t.Errorf("%+v, %v", removed, err)
	}
	if left := s.Images(); !slices.Equal(left, foreign) {
		t.Errorf("there are %q, expected %q", left, foreign)
	}
	if id, _, _ := strings.Cut(foreign[0], " "); !strings.Contains(warning(), id) {
		t.Errorf("of %s: %s", foreign[0], warning())
	}
	facts, err := site(t, s, dir, func(c *openstack.Settings) { mine(c); c.Image = "bee:hpcs" }).Probe(t.Context())
	if err != nil || facts.Usable || !strings.Contains(facts.Reason, `"hpc"`) || !strings.Contains(facts.Remedy, "bee cloud image push hpcs --site campus") {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestPushFails: what Glance has got otherwise than it was sent, lost connections and an interrupt leave no image.
func TestPushFails(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	images := site(t, s, t.TempDir(), func(c *openstack.Settings) { c.Cloud.Installation = "mine" }).Inventory().Images()
	d, _ := ownDisk("hpc", "x")
	changed := d
	changed.Digest = "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		before func()
		disk   driver.MachineDisk
		word   string
	}{
		"damaged on its way":          {s.Damage, d, "digest"},
		"changed here":                {func() {}, changed, "bee cloud image build --again hpc"},
		"the connection breaks":       {func() { s.Drop(sendImage, false) }, d, ""},
		"the answer is lost":          {func() { s.Drop(sendImage, true) }, d, ""},
		"the first answer is lost":    {func() { s.Drop("POST /image/v2/images", true) }, d, ""},
		"it cannot be made that name": {func() { s.Fail("PATCH /image/v2/images/{id}", http.StatusForbidden, false) }, d, "role"},
		"too large":                   {func() { s.Fail(sendImage, http.StatusRequestEntityTooLarge, false) }, d, ""},
	} {
		c.before()
		_, _, err := images.Push(t.Context(), c.disk, noReport)
		if err == nil || core.Remedy(err) == "" || !strings.Contains(err.Error()+core.Remedy(err), c.word) {
			t.Errorf("%s: %v; %s", name, err, core.Remedy(err))
		}
		if left := s.Images(); len(left) > 0 {
			t.Errorf("%s: left are %q", name, left)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := images.Push(ctx, d, func(int64, int64) { cancel() }); !core.Interrupted(err) {
		t.Errorf("interrupted: %v", err)
	}
	if left := s.Images(); len(left) > 0 {
		t.Errorf("an interrupt leaves %q", left)
	}
	if _, _, err := images.Push(t.Context(), d, noReport); err != nil || len(s.Images()) != 1 {
		t.Errorf("%q, %v", s.Images(), err)
	}
}
