package s3

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

// by has this process store a tree as a host does, with nothing but signed requests. It calls each before that is answered.
func by(tree string, g driver.Generation, each func(driver.ObjectRequest)) driver.Upload {
	return func(ctx context.Context, sign driver.SignObject) ([]byte, error) {
		var turn sync.Mutex
		return Gather(ctx, func(ctx context.Context, q driver.ObjectRequest) (driver.ObjectAnswer, error) {
			turn.Lock()
			defer turn.Unlock()
			a, err := sign(ctx, q)
			if !a.There {
				each(q)
			}
			return a, err
		}, g, "far", store.Tree(tree))
	}
}

// TestHostStoresInABucket: a host that has no credentials stores a tree, and of the next one what has changed. A machine with
// credentials restores it.
func TestHostStoresInABucket(t *testing.T) {
	server := s3server.StartFound(t)
	s := &bucket{"s3://" + server.Bucket, open(t, server, "runs")}
	tree, data := t.TempDir(), make([]byte, 3<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data) //nolint:errcheck // it never fails
	write := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(tree, "data"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stored []int64
	for n := 1; n <= 3; n++ {
		write()
		sent, g := int64(0), driver.Generation{Attempt: n}
		m, made, err := s.KeepBy(t.Context(), "u@r", g, "far", by(tree, g, func(q driver.ObjectRequest) { sent += q.Size }))
		if err != nil || !made || m.Attempt != n || m.Site != "far" || m.Bytes != int64(len(data)) {
			t.Fatalf("%+v, %v, %v", m, made, err)
		}
		stored = append(stored, sent)
		to := t.TempDir()
		if err := s.Run("u@r").Restore(t.Context(), driver.Checkpoint{Generation: g, Manifest: m}, store.Tree(to)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, "data")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("restored are %d bytes, %v", len(got), err)
		}
		if _, made, err := s.KeepBy(t.Context(), "u@r", g, "far", func(context.Context, driver.SignObject) ([]byte, error) {
			return nil, errors.New("nothing is uploaded again")
		}); made || err != nil {
			t.Errorf("again: %v, %v", made, err)
		}
		if n == 1 {
			random.Read(data[1<<20 : 1<<20+1000]) //nolint:errcheck // it never fails
		}
	}
	if stored[0] < 3<<20 || stored[1] > 1<<20 || stored[2] > 1<<16 { // of the last one, its tree alone
		t.Errorf("stored are %d bytes", stored)
	}
}

// TestHostThatLies: a host gets no right to what it does not store itself, and its word does not count for what is there.
func TestHostThatLies(t *testing.T) {
	digest, g := strings.Repeat("0a", 32), driver.Generation{Attempt: 2}
	objects := kept{"u@r/packs/12-" + digest: []byte("older"), "u@r/bad/12-" + digest[1:] + "0": []byte("x"), "u@s/packs/12-" + digest: []byte("another's")}
	before := len(objects)
	s := &bucket{"s3://x", objects}
	keep := func(upload driver.Upload) error {
		_, made, err := s.KeepBy(t.Context(), "u@r", g, "far", upload)
		if made {
			t.Error("a checkpoint was made")
		}
		return err
	}
	for _, q := range []driver.ObjectRequest{
		{Op: driver.StoreObject, Name: "packs/12-" + digest, Size: 4},
		{Op: driver.StoreObject, Name: "manifests/1", Size: 4},
		{Op: driver.StoreObject, Name: "run.json", Size: 4},
		{Op: driver.StoreObject, Name: "../u@s/packs/12-" + digest, Size: 4},
		{Op: driver.StoreObject, Name: "trees/" + digest + "/x", Size: 4},
		{Op: driver.StoreObject, Name: "trees/" + digest},
		{Op: driver.StoreObject, Name: "trees/" + digest, Size: mostObject + 1},
		{Op: driver.ReadObject, Name: "run.json"},
		{Op: driver.ReadObject, Name: "../u@s/packs/12-" + digest},
		{Op: driver.ReadObject, Name: "packs/12-00"},
		{Op: driver.ListObjects, Name: ""},
		{Op: driver.ListObjects, Name: "../"},
		{Op: "remove", Name: "packs/12-" + digest},
	} {
		err := keep(func(ctx context.Context, sign driver.SignObject) ([]byte, error) {
			a, err := sign(ctx, q)
			if err == nil {
				t.Errorf("%+v is answered by %+v", q, a)
			}
			return nil, err
		})
		if !core.IsKind(err, core.Unsupported) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	m := manifest{Version: manifestVersion, Tree: []object{{Name: digest, Size: 3}}}
	raw, err := m.format()
	if err != nil {
		t.Fatal(err)
	}
	for text, kind := range map[string]core.Kind{string(raw): core.Lost, "garbage": core.Invalid, "": core.Invalid} {
		if err := keep(func(context.Context, driver.SignObject) ([]byte, error) { return []byte(text), nil }); !core.IsKind(err, kind) {
			t.Errorf("a manifest of %d bytes: %v", len(text), err)
		}
	}
	if len(objects) != before {
		t.Errorf("there are %d objects", len(objects))
	}
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "data"), []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	signed := 0 // for an address that nobody listens at
	if err := keep(by(tree, g, func(q driver.ObjectRequest) { signed += int(q.Size) })); !core.IsKind(err, core.Unsupported) || signed == 0 {
		t.Errorf("a bucket that is not reached: %v, after %d bytes", err, signed)
	}
}

// signing is a bucket that notes what it has signed.
type signing struct {
	kept
	signed []string
}

func (s *signing) Sign(_ context.Context, _ driver.ObjectOp, name string, _ int64) (string, error) {
	s.signed = append(s.signed, name)
	return "http://127.0.0.1:1/", nil
}

// TestAHostSpoilsNoOtherSite: what a host has stored under true names, with other data, becomes a part of no checkpoint of
// another site.
func TestAHostSpoilsNoOtherSite(t *testing.T) {
	tree, data := t.TempDir(), make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{2}).Read(data) //nolint:errcheck // it never fails
	if err := os.WriteFile(filepath.Join(tree, "data"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	honest, first, second := kept{}, driver.Generation{Attempt: 1}, driver.Generation{Attempt: 2}
	if _, _, err := (&bucket{"s3://x", honest}).Run("u@r").Keep(t.Context(), first, "far", store.Tree(tree)); err != nil {
		t.Fatal(err)
	}
	m := parseManifest(first, honest["u@r/manifests/1"])
	m.Bits = 99
	raw, err := m.format()
	if err != nil || m.broken {
		t.Fatal(err)
	}
	objects := &signing{kept: kept{}}
	s := &bucket{"s3://x", objects}
	if _, made, err := s.KeepBy(t.Context(), "u@r", first, "far", func(ctx context.Context, sign driver.SignObject) ([]byte, error) {
		for name, whole := range honest {
			own := strings.TrimPrefix(name, "u@r/")
			if strings.HasPrefix(own, manifests) {
				continue
			}
			if _, err := sign(ctx, driver.ObjectRequest{Op: driver.StoreObject, Name: own, Size: int64(len(whole))}); err != nil {
				return nil, err
			}
			spoilt := bytes.Clone(whole)
			spoilt[0]++
			objects.kept[objects.signed[len(objects.signed)-1]] = spoilt
		}
		return raw, nil
	}); !made || err != nil {
		t.Fatalf("%v, %v", made, err)
	}
	for site, want := range map[string]bool{"far": true, "near": false} {
		refused := errors.New("enough")
		if _, _, err := s.KeepBy(t.Context(), "u@r", second, site, func(ctx context.Context, sign driver.SignObject) ([]byte, error) {
			a, err := sign(ctx, driver.ObjectRequest{Op: driver.ListObjects, Name: packs})
			if err != nil || len(a.List) > 0 != want {
				t.Errorf("site %s uses %v, %v", site, a.List, err)
			}
			for _, o := range append(m.Packs, m.Tree...) {
				for _, prefix := range []string{packs, trees} {
					a, err := sign(ctx, driver.ObjectRequest{Op: driver.StoreObject, Name: prefix + o.Name, Size: o.Size})
					if _, is := honest["u@r/"+prefix+o.Name]; is && (err != nil || a.There != want) {
						t.Errorf("site %s: %s%s: %+v, %v", site, prefix, o.Name, a, err)
					}
				}
			}
			return nil, refused
		}); !errors.Is(err, refused) {
			t.Error(err)
		}
	}
	run := s.Run("u@r")
	kept, made, err := run.Keep(t.Context(), second, "near", store.Tree(tree))
	if !made || err != nil {
		t.Fatalf("%v, %v", made, err)
	}
	to := t.TempDir()
	if err := run.Restore(t.Context(), driver.Checkpoint{Generation: second, Manifest: kept}, store.Tree(to)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "data")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("restored are %d bytes, %v", len(got), err)
	}
}
