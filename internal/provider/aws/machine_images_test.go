package aws_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
)

// sparseDisk returns a disk of nine blocks and a part of one, five of which are not empty, and its content.
func sparseDisk(name, mark string) (driver.MachineDisk, []byte) {
	content := make([]byte, 9*ec2server.BlockSize+100)
	for _, at := range []int{0, 3*ec2server.BlockSize - 1, 4 * ec2server.BlockSize, len(content) - len(mark)} {
		copy(content[at:], mark)
	}
	sum := sha256.Sum256(content)
	return driver.MachineDisk{Name: name, Digest: "sha256:" + hex.EncodeToString(sum[:]), Arch: "amd64", User: "bee", Content: bytes.NewReader(content), Size: int64(len(content))}, content
}

func imagesOf(t *testing.T, s *ec2server.Server, dir string, change func(*aws.Settings)) driver.MachineImages {
	t.Helper()
	return site(t, s, dir, func(c *aws.Settings) {
		c.Cloud.Installation = "mine"
		if change != nil {
			change(c)
		}
	}).Inventory().Images()
}

// kinds are the kinds of what the account has: ami, and snap with its state.
func kinds(s *ec2server.Server) (all []string) {
	for _, line := range s.Kept().Images() {
		words := strings.Fields(line)
		kind, _, _ := strings.Cut(words[0], "-")
		all = append(all, kind+" "+words[len(words)-1])
	}
	return all
}

func noReport(int64, int64) {}

// TestPushImage uploads the blocks of a disk that are not empty, in spite of a service that does not know the snapshot at once,
// throttles and fails. The image has all of it, boots by UEFI, and is rented by its name. What is another's stays.
func TestPushImage(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	s.Kept().Foreign(map[string]string{"bee:image": "hpc", "bee:installation": "other", "bee:pushed": "2020-01-01T00:00:00Z", "bee:user": "bee"})
	foreign := s.Kept().Images()
	images := imagesOf(t, s, dir, func(c *aws.Settings) { c.Tags = map[string]string{"project": "cfd"} })
	s.Kept().Unknown(3)
	s.Fail("PutSnapshotBlock", "RequestThrottledException", http.StatusBadRequest, false)
	s.Drop("StartSnapshot", true)
	s.Fail("PutSnapshotBlock", "InternalServerException", http.StatusInternalServerError, true)
	s.Fail("PutSnapshotBlock", "ConcurrentLimitExceededException", http.StatusBadRequest, false)
	d, content := sparseDisk("hpc", "first")
	var last, total int64
	i, was, err := images.Push(t.Context(), d, func(done, of int64) { last, total = done, of })
	if err != nil || was || !i.Whole || !i.Own || last != d.Size || total != d.Size {
		t.Fatalf("%+v, %v, %v; reported are %d of %d", i, was, err, last, total)
	}
	got, boot := s.Kept().Disk("bee-hpc-", len(content))
	if !bytes.Equal(got, content) || boot != "uefi" || s.Kept().Blocks("bee-hpc-") != 5 {
		t.Errorf("the image boots by %q, and %d blocks were sent; its disk is as it was: %v", boot, s.Kept().Blocks("bee-hpc-"), bytes.Equal(got, content))
	}
	list, err := images.List(t.Context())
	if err != nil || len(list) != 2 || !slices.ContainsFunc(list, func(l driver.MachineImage) bool {
		return l.Own && l.Whole && l.Digest == d.Digest && l.Arch == "amd64" && l.ID == i.ID && l.Source != ""
	}) {
		t.Errorf("%+v, %v", list, err)
	}
	calls := s.Calls("StartSnapshot")
	if i, was, err := images.Push(t.Context(), d, noReport); err != nil || !was || s.Calls("StartSnapshot") != calls {
		t.Errorf("again: %+v, %v, %v", i, was, err)
	}
	second, _ := sparseDisk("hpc", "second")
	if _, _, err := images.Push(t.Context(), second, noReport); err != nil {
		t.Fatal(err)
	}
	tagged := s.Calls("CreateTags")
	if back, was, err := images.Push(t.Context(), d, noReport); err != nil || !was || back.ID != i.ID || s.Calls("CreateTags") != tagged+1 {
		t.Errorf("back to the first: %+v, %v, %v", back, was, err)
	}
	p := site(t, s, dir, func(c *aws.Settings) { c.Image, c.Cloud.Installation = "bee:hpc", "mine" })
	if facts, err := p.Probe(t.Context()); err != nil || !facts.Usable || facts.Warning != "" {
		t.Errorf("of an own image: %+v, %v", facts, err)
	}
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("own"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if rented := s.Params("RunInstances"); rented[len(rented)-1].Get("ImageId") != i.ID {
		t.Errorf("machines boot %q, expected %q", rented[len(rented)-1].Get("ImageId"), i.ID)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
	s.Kept().Become("bee-hpc-", ec2server.Disabled)
	if left, err := images.Clean(t.Context(), false); err != nil || len(left) > 0 {
		t.Errorf("disabled images are taken for what an upload has left: %+v, %v", left, err)
	}
	s.Fail("DeleteSnapshot", "InvalidSnapshot.InUse", http.StatusBadRequest, false)
	if removed, _, err := images.Remove(t.Context(), "hpc"); err != nil || len(removed) != 2 {
		t.Errorf("%+v, %v", removed, err)
	}
	if left := s.Kept().Images(); !slices.Equal(left, foreign) {
		t.Errorf("there are %q, expected %q", left, foreign)
	}
	facts, err := p.Probe(t.Context())
	at := slices.IndexFunc(foreign, func(line string) bool { return strings.Contains(line, " foreign-0 ") })
	if id, _, _ := strings.Cut(foreign[at], " "); err != nil || !facts.Usable || !strings.Contains(facts.Warning, id) {
		t.Errorf("of %s: %+v, %v", foreign[at], facts, err)
	}
	if _, _, err := images.Remove(t.Context(), "hpc"); !core.IsKind(err, core.NotFound) {
		t.Errorf("another installation's: %v", err)
	}
}

// TestImageIsNotPushed: a site of an image that is not there, or is for other processors, rents nothing, and names the command
// that pushes it. The login user is the image's.
func TestImageIsNotPushed(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	d, _ := sparseDisk("hpc", "x")
	if _, _, err := imagesOf(t, s, dir, nil).Push(t.Context(), d, noReport); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		image, kind, word, remedy string
	}{
		"not there":        {"bee:hpcs", ec2server.Small, `"hpc"`, "bee cloud image push hpcs --site ec2"},
		"other processors": {"bee:hpc", ec2server.Arm, "arm64", "bee cloud image push hpc --site ec2"},
	} {
		facts, err := site(t, s, dir, func(a *aws.Settings) { a.Image, a.Types = c.image, []string{c.kind} }).Probe(t.Context())
		if err != nil || facts.Usable || !strings.Contains(facts.Reason, c.word) || !strings.Contains(facts.Remedy, c.remedy) {
			t.Errorf("%s: %+v, %v", name, facts, err)
		}
	}
	facts, err := site(t, s, dir, func(a *aws.Settings) { a.Image, a.User = "bee:hpc", "" }).Probe(t.Context())
	if err != nil || !facts.Usable {
		t.Errorf("%+v, %v", facts, err)
	}
	if n := s.Calls("CreateSecurityGroup"); n != 1 { // that which only tries
		t.Errorf("%d groups were made", n)
	}
}

// TestPushFails: what EBS has got otherwise than it was sent, a right that is missing and an interrupt leave nothing, and name
// what helps. An upload that is complete is not repeated.
func TestPushFails(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	images := imagesOf(t, s, dir, nil)
	d, _ := sparseDisk("hpc", "x")
	changed := d
	changed.Digest = "sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		before func()
		disk   driver.MachineDisk
		after  func()
		word   string
	}{
		"damaged on its way": {before: s.Kept().Damage, disk: d, word: "checksum"},
		"changed here":       {disk: changed, word: "bee cloud image build --again hpc"},
		"no right":           {before: func() { s.Deny("PutSnapshotBlock") }, disk: d, after: func() { s.Allow("PutSnapshotBlock") }, word: "ebs:PutSnapshotBlock"},
		"no right to begin":  {before: func() { s.Deny("StartSnapshot") }, disk: d, after: func() { s.Allow("StartSnapshot") }, word: "ebs:StartSnapshot"},
		"a quota":            {before: func() { s.Fail("StartSnapshot", "ServiceQuotaExceededException", http.StatusPaymentRequired, false) }, disk: d, word: "quota"},
	} {
		if c.before != nil {
			c.before()
		}
		_, _, err := images.Push(t.Context(), c.disk, noReport)
		if err == nil || !strings.Contains(err.Error()+core.Remedy(err), c.word) {
			t.Errorf("%s: %v; %s", name, err, core.Remedy(err))
		}
		if left := kinds(s); len(left) > 0 {
			t.Errorf("%s: left are %q", name, left)
		}
		if c.after != nil {
			c.after()
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := images.Push(ctx, d, func(int64, int64) { cancel() }); !core.Interrupted(err) {
		t.Errorf("interrupted: %v", err)
	}
	if left := kinds(s); len(left) > 0 {
		t.Errorf("an interrupt leaves %q", left)
	}
	s.Kept().Break()
	if _, _, err := images.Push(t.Context(), d, noReport); err == nil || !strings.HasSuffix(core.Remedy(err), "again.") {
		t.Errorf("EBS could not complete it: %v; %s", err, core.Remedy(err))
	}
	if left := kinds(s); len(left) > 0 {
		t.Errorf("a snapshot that has failed leaves %q", left)
	}
	_, _, err := images.Push(t.Context(), d, func(done, total int64) {
		if done == total { // whether it is complete cannot be asked
			s.Deny("DescribeSnapshots")
		}
	})
	if left := kinds(s); !core.IsKind(err, core.Unsupported) || !slices.Equal(left, []string{"snap pending"}) {
		t.Errorf("all of it is there, and %q is left, %v", left, err)
	}
	s.Allow("DescribeSnapshots")
	started := s.Calls("StartSnapshot")
	s.Deny("RegisterImage")
	if _, _, err := images.Push(t.Context(), d, noReport); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "ec2:RegisterImage") {
		t.Errorf("%v; %s", err, core.Remedy(err))
	}
	if left := kinds(s); !slices.Equal(left, []string{"snap completed"}) || s.Calls("StartSnapshot") != started {
		t.Errorf("once it is complete, %q is left, with %d further uploads", left, s.Calls("StartSnapshot")-started)
	}
	s.Allow("RegisterImage")
	s.Drop("RegisterImage", true) // the answer is lost, and the image is listed late
	s.Late(300 * time.Millisecond)
	starts := s.Calls("StartSnapshot")
	if i, was, err := images.Push(t.Context(), d, noReport); err != nil || was || !i.Whole || s.Calls("StartSnapshot") != starts {
		t.Errorf("%+v, %v, %v, with %d further uploads", i, was, err, s.Calls("StartSnapshot")-starts)
	}
	if left := kinds(s); !slices.Equal(left, []string{"ami available", "snap completed"}) {
		t.Errorf("there are %q", left)
	}
	s.Kept().Become("bee-hpc-", "failed")
	if left, err := images.Clean(t.Context(), false); err != nil || len(left) != 1 || len(kinds(s)) > 0 {
		t.Errorf("of an image that has failed there are %q, %+v, %v", kinds(s), left, err)
	}
}
