package node

import (
	"context"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// newServer gives the calls that this node answers.
func (n *node) newServer() *rpc.Server {
	s := rpc.NewServer(n.Log)
	rpc.HandleStream(s, nodecall.CallExec, n.handleExec)
	rpc.Handle(s, nodecall.CallHealth, func(context.Context, rpc.Caller, rpc.None) (nodecall.Health, error) { return n.health(), nil })
	rpc.Handle(s, nodecall.CallConsole, func(context.Context, rpc.Caller, rpc.None) (nodecall.Console, error) {
		text, ok := n.current.BootConsole()
		var err error
		if !ok {
			text, err = n.current.OfGuest("console", driver.Guest.Console)
		}
		return nodecall.Console{Text: text}, err
	})
	rpc.Handle(s, nodecall.CallLogin, func(context.Context, rpc.Caller, rpc.None) (nodecall.Login, error) {
		name, err := n.current.OfGuest("account", func(g driver.Guest) (string, error) { return g.Login(), nil })
		return nodecall.Login{Name: name}, err
	})
	rpc.Handle(s, nodecall.CallFabric, func(context.Context, rpc.Caller, rpc.None) (nodecall.Fabric, error) {
		stats, err := n.links.stats()
		return nodecall.Fabric{Stats: stats}, err
	})
	rpc.Handle(s, nodecall.CallVerbs, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (nodecall.Verbs, error) {
		return n.verbs.statistics(ctx)
	})
	rpc.Handle(s, peercall.CallBroker, n.verbs.answerBroker)
	rpc.Handle(s, peercall.CallHello, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) { return rpc.None{}, nil })
	rpc.HandleStream(s, spread.Call, n.spreads.Send)
	rpc.HandleStream(s, peercall.CallPart, n.machine.SendPart)
	n.obey(s)
	if n.head != nil {
		n.head.Register(s)
		rpc.HandleStream(s, nodecall.CallRelay, n.relay.attach)
		rpc.Handle(s, nodecall.CallUseKeys, func(ctx context.Context, _ rpc.Caller, k core.BucketKeys) (rpc.None, error) {
			err := n.keys.replace(ctx, k)
			if err != nil {
				n.Log.Warn("new credentials for the burst buffer are not used", "err", err)
			}
			return rpc.None{}, err
		})
		rpc.Handle(s, nodecall.CallKeysExpire, func(context.Context, rpc.Caller, rpc.None) (nodecall.KeysExpire, error) {
			return nodecall.KeysExpire{Expire: n.keys.expire()}, nil
		})
	}
	return s
}

// obey adds what the head has this node do.
func (n *node) obey(s *rpc.Server) {
	rpc.Handle(s, peercall.CallBegin, func(ctx context.Context, _ rpc.Caller, r peercall.BeginRequest) (peercall.BeginReply, error) {
		if err := n.begin(ctx, r); err != nil {
			return peercall.BeginReply{}, peercall.FailedOn(n.config.Host.Name, "prepare", err)
		}
		return peercall.BeginReply{Group: n.group}, nil
	})
	rpc.Handle(s, peercall.CallStart, n.handleStart)
	rpc.Handle(s, peercall.CallMount, func(ctx context.Context, _ rpc.Caller, r peercall.MountRequest) (rpc.None, error) {
		if err := n.mountAfar(ctx, r.ID); err != nil {
			return rpc.None{}, peercall.FailedOn(n.config.Host.Name, "mount the volume on", err)
		}
		return rpc.None{}, nil
	})
	rpc.Handle(s, peercall.CallSync, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (rpc.None, error) {
		if err := n.spreads.HaveTree(ctx, spread.Volume, plan.VolumeDir(n.config.Host.Dir), n.group); err != nil {
			return rpc.None{}, peercall.FailedOn(n.config.Host.Name, "copy the volume to", err)
		}
		n.settle()
		return rpc.None{}, nil
	})
	rpc.Handle(s, peercall.CallForget, func(_ context.Context, _ rpc.Caller, t spread.Thing) (rpc.None, error) {
		n.spreads.Forget(t.What)
		return rpc.None{}, nil
	})
	rpc.Handle(s, peercall.CallEnd, func(_ context.Context, _ rpc.Caller, r peercall.EndRequest) (peercall.EndReply, error) {
		report := n.EndContainer(r.Grace)
		n.unmountAfar()
		return peercall.EndReply{Report: report}, nil
	})
	rpc.Handle(s, peercall.CallSignal, func(ctx context.Context, _ rpc.Caller, r peercall.SignalRequest) (peercall.SignalReply, error) {
		some, err := n.current.SignalRanks(ctx, r.Number)
		if err != nil {
			return peercall.SignalReply{}, peercall.FailedOn(n.config.Host.Name, "signal the ranks on", err)
		}
		return peercall.SignalReply{Some: some}, nil
	})
	rpc.Handle(s, peercall.CallUse, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (peercall.UseReply, error) {
		use, err := n.Use(ctx)
		return peercall.UseReply{Use: use}, err
	})
	rpc.Handle(s, peercall.CallLook, func(_ context.Context, _ rpc.Caller, g peercall.Globs) (snapshot.Look, error) {
		l, err := snapshot.Trees{Seen: n.known.job().Volume}.Look(n.machine.Volume(), g.Globs)
		if err != nil {
			return snapshot.Look{}, peercall.FailedOn(n.config.Host.Name, "look at the files of a checkpoint on", err)
		}
		return l, nil
	})
	rpc.HandleStream(s, peercall.CallGather, n.sendOutputs)
	rpc.Handle(s, peercall.CallHold, func(ctx context.Context, _ rpc.Caller, r peercall.HoldRequest) (rpc.None, error) {
		if err := n.machine.Hold(ctx, r); err != nil {
			return rpc.None{}, peercall.FailedOn(n.config.Host.Name, r.Do+" the virtual machine on", err)
		}
		return rpc.None{}, nil
	})
}

func (n *node) handleStart(ctx context.Context, _ rpc.Caller, r peercall.StartRequest) (peercall.StartReply, error) {
	n.spreads.Forget(spread.Image, spread.Guest, spread.Inputs)
	n.known.setVolume(r.Volume)
	b, err := n.RunContainer(ctx, r.Runtime)
	if err != nil {
		return peercall.StartReply{}, peercall.FailedOn(n.config.Host.Name, "start the container on", err)
	}
	return peercall.StartReply{Runtime: b.Runtime, Why: core.Printable(b.Why, peercall.MaxText), Notes: b.Notes}, nil
}

func (n *node) health() nodecall.Health {
	h := nodecall.Health{Rank: n.config.Rank, Running: n.current.Get() != nil}
	if n.head != nil {
		h.Phase = n.head.Journal().Phase()
	}
	return h
}

// report reports to the user something, by way of the head's journal.
func (n *node) report(text string) {
	if n.head != nil {
		n.head.Journal().Say(n.head.Journal().Phase(), text)
		return
	}
	if c := n.pool.headConn(); c != nil {
		ctx, cancel := context.WithTimeout(n.life, handshakeTimeout)
		defer cancel()
		core.BestEffort(rpc.Call(ctx, c, peercall.CallNote, peercall.Note{Text: core.Printable(text, peercall.MaxText)})) // a lost head ends us anyway
	}
}
