package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestKeysAreRenewed before they expire, and again where that failed. Where the head has such as do not, none are read.
func TestKeysAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		const valid = time.Hour
		read, fails, expire := 0, 0, true
		c := &Runner{
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			BucketKeys: func(context.Context, string) (k core.BucketKeys, err error) {
				if read++; read == 3 || read == 4 {
					return k, errors.New("the server is away")
				}
				if expire {
					k.Expires = time.Now().Add(valid)
				}
				return k, nil
			},
		}
		sub := submission.Submission{Job: spec.Job{Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "s3://bucket/run7", Credentials: spec.CredentialsSend}}}
		w := &headWatch{rec: &record{of: control(c, state.Run{ID: "r"}, sub)}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*valid)
		defer cancel()
		var until time.Time // what was sent expires
		w.renewKeys(ctx, keysOf{use: func(k core.BucketKeys) error {
			if !until.IsZero() && time.Now().After(until) {
				t.Errorf("new ones come %s after the last ones have expired", time.Since(until))
			}
			until = k.Expires
			if fails++; fails == 5 {
				until = time.Now().Add(valid / 4)
				return errors.New("the connection broke")
			}
			return nil
		}})
		if warned := strings.Count(log.String(), "level=WARN"); read < 10 || read > 20 || warned != 2 {
			t.Errorf("they were read %d times, and %d were logged: %s", read, warned, log.String())
		}
		read, expire = 10, false // the user has such as do not expire now
		if w.renewKeys(t.Context(), keysOf{use: func(core.BucketKeys) error { return nil }}); read != 11 {
			t.Errorf("no end: they were read %d times", read-10)
		}
		read = 10
		if w.renewKeys(t.Context(), keysOf{endless: true}); read != 10 {
			t.Error("the head has such as do not expire, and others were read")
		}
		expire = true
		for name, once := range map[string]func(core.BucketKeys) error{
			"a head of another version": func(core.BucketKeys) error {
				return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: "use-bucket-keys", Err: errors.New("there is no such call here")}
			},
		} {
			read = 10
			if w.renewKeys(t.Context(), keysOf{use: once}); read != 11 {
				t.Errorf("%s: they were read %d times", name, read-10)
			}
		}
		w.rec.of.sub.Job.Volume.Credentials = spec.CredentialsSite
		if w.renewKeys(t.Context(), keysOf{}); read != 11 {
			t.Error("those that the site has were read here")
		}
	})
}

// TestKeysOfUnknownEnd are looked for again and again, and sent once they are other ones.
func TestKeysOfUnknownEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, sent := time.Now(), []core.BucketKeys{}
		c := &Runner{
			Log: slog.New(slog.DiscardHandler),
			BucketKeys: func(context.Context, string) (core.BucketKeys, error) {
				return core.BucketKeys{ID: "id", Session: time.Since(begun).Truncate(time.Hour).String()}, nil // a tool writes new ones each hour
			},
		}
		sub := submission.Submission{Job: spec.Job{Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "s3://bucket/run7", Credentials: spec.CredentialsSend}}}
		w := &headWatch{rec: &record{of: control(c, state.Run{ID: "r"}, sub)}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour+2*lookForKeys)
		defer cancel()
		w.renewKeys(ctx, keysOf{use: func(k core.BucketKeys) error { sent = append(sent, k); return nil }})
		if len(sent) != 4 || sent[3].Session != "3h0m0s" {
			t.Errorf("%d were sent", len(sent))
		}
	})
}

// keysOf is a head that is sent keys.
type keysOf struct {
	headlink.Head
	use     func(core.BucketKeys) error
	endless bool // those that it has
}

// KeysExpire implements headlink.Head.
func (k keysOf) KeysExpire(context.Context) (bool, error) { return !k.endless, nil }

// UseKeys implements headlink.Head.
func (k keysOf) UseKeys(_ context.Context, keys core.BucketKeys) error { return k.use(keys) }
