package storecall

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/store"
)

// callUpload has a tree of the host stored as objects. Its stream has the host's requests and the controller's answers.
var callUpload = rpc.Method[call, rpc.None]{Name: "store-upload", By: rpc.Controller, Within: rpc.Unlimited}

// asked is what a host sends on the stream of an upload: a request, or its end.
type asked struct {
	Request driver.ObjectRequest `json:"request,omitzero"`
	Over    bool                 `json:"over,omitempty"`
	// Manifest is what the checkpoint consists of.
	Manifest []byte      `json:"manifest,omitempty"`
	Failed   rpc.Failure `json:"failed,omitzero"`
}

// Check implements the check of package rpc.
func (a asked) Check() error { return a.Failed.Check() }

// answered is the controller's answer to a request.
type answered struct {
	Answer driver.ObjectAnswer `json:"answer"`
	Failed rpc.Failure         `json:"failed,omitzero"`
}

// Check implements the check of package rpc.
func (a answered) Check() error { return a.Failed.Check() }

// Upload has the host at the other end of a link store a tree of its own, as driver.DirectTransfer.Upload.
func Upload(ctx context.Context, k *sshlink.Link, tree string, g driver.Generation, site string, sign driver.SignObject) ([]byte, error) {
	lost := func(err error) error {
		return sshlink.Transient(&core.Error{Kind: core.Lost, Op: "have a checkpoint stored by", Object: site, Err: err})
	}
	request, err := json.Marshal(Request{Path: tree, Generation: g, Site: site})
	if err != nil {
		return nil, err
	}
	s, _, err := rpc.Open(ctx, k.Peer, callUpload, call{Store: request})
	if err != nil {
		return nil, sshlink.Transient(err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	for {
		got, err := rpc.Receive[asked](s, MaxManifest)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, lost(err)
		case got.Over:
			return got.Manifest, got.Failed.Err()
		}
		var a answered
		a.Answer, err = sign(ctx, got.Request)
		a.Failed = rpc.Fail(err)
		if err := rpc.Send(s, a, MaxManifest); err != nil {
			return nil, lost(err)
		}
	}
}

// upload stores a tree of this host.
func (a Agent) upload(ctx context.Context, _ rpc.Caller, c call, s rpc.Answer[rpc.None]) error {
	q, err := rpc.Decode[Request](c.Store)
	if err != nil {
		return err
	}
	if a.Upload == nil {
		return &core.Error{Kind: core.Unsupported, Op: "store a checkpoint", Err: errors.New("this host stores no objects"), Remedy: core.RemedyVersions}
	}
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	var turn sync.Mutex // one request at a time
	raw, err := a.Upload(ctx, func(_ context.Context, r driver.ObjectRequest) (driver.ObjectAnswer, error) {
		turn.Lock()
		defer turn.Unlock()
		if err := rpc.Send(s, asked{Request: r}, rpc.DefaultSize); err != nil {
			return driver.ObjectAnswer{}, err
		}
		got, err := rpc.Receive[answered](s, MaxManifest)
		if err == nil {
			err = got.Failed.Err()
		}
		return got.Answer, err
	}, q.Generation, q.Site, store.Tree(q.Path))
	return rpc.Send(s, asked{Over: true, Manifest: raw, Failed: rpc.Fail(err)}, MaxManifest)
}
