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

// TestKeysAreRenewed before they expire, and again where that failed; those that do not expire are sent once.
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
		for name, once := range map[string]func(core.BucketKeys) error{
			"no end": func(core.BucketKeys) error { return nil },
			"a head of another version": func(core.BucketKeys) error {
				return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: "use-bucket-keys", Err: errors.New("there is no such call here")}
			},
		} {
			read, expire = 10, name != "no end"
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

// keysOf is a head that is sent keys.
type keysOf struct {
	headlink.Head
	use func(core.BucketKeys) error
}

// UseKeys implements headlink.Head.
func (k keysOf) UseKeys(_ context.Context, keys core.BucketKeys) error { return k.use(keys) }
