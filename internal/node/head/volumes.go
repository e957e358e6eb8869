package head

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// volumes are the directories in which the hosts have the run's volume: one that all see, or
// one for each.
type volumes struct {
	config  plan.Config
	plan    *plan.Plan
	journal *journal.Journal
	hosts   *hosts
	peers   Peers
	spreads *spread.Tree
	shared  bool // all hosts see one
	burst   *burstVolume
}

// trees opens the run's volume and its copies.
func (v *volumes) trees() snapshot.Trees { return snapshot.Trees{Seen: v.plan.Volume} }

// place returns the volume on this host, and the name in it of a file of the job, by its path
// there. Links on the way that lead out of the volume are refused.
func (v *volumes) place(file string) (volume *fsutil.Root, name string, err error) {
	rel, _ := v.plan.InVolume(file)
	if volume, err = v.trees().Open(v.burst.dir()); err != nil {
		return nil, "", err
	}
	if name, err = snapshot.Place(volume, rel); err != nil {
		volume.Close()
		return nil, "", err
	}
	return volume, name, nil
}

// own reports whether another node has a volume of its own: one whose files this
// node does not see. Of those on one host, the first has it.
func (v *volumes) own(rank int) bool {
	return rank > 0 && (v.hosts.groups[rank] == rank || v.plan.HoldsVolume()) && !v.plan.UsesDataImage() && v.plan.Burst == nil
}

// asWanted refuses hosts that share no volume, where the job needs one.
func (v *volumes) asWanted() error {
	if !v.plan.SharedVolume || v.shared || v.plan.UsesDataImage() {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use hosts", Err: errors.New("they share no file system, and the job has `volume: {shared: required}`"),
		Remedy: "Name as `scratch:` of the site a directory that all its hosts see, or a site with one.",
	}
}

// spread copies node 0's volume to the hosts that have one of their own.
func (v *volumes) spread(ctx context.Context) error {
	v.journal.Say(core.PhaseStart, "the hosts share no file system: copying the volume to each")
	volume := plan.VolumeDir(v.config.Host.Dir)
	v.spreads.Offer(spread.Volume, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, volume, nil) })
	if err := v.hosts.all(func(_ int, p *rpc.Peer) error { _, err := rpc.Call(ctx, p, peercall.CallSync, rpc.None{}); return err }); err != nil {
		return err
	}
	v.spreads.Forget(spread.Volume)
	return v.hosts.all(func(_ int, p *rpc.Peer) error {
		_, err := rpc.Call(ctx, p, peercall.CallForget, spread.Thing{What: spread.Volume})
		return err
	})
}

// look looks at the files of a checkpoint in the volumes of all hosts, by rank.
func (v *volumes) look(ctx context.Context, list []string) ([]snapshot.Look, error) {
	looks, errs := make([]snapshot.Look, v.config.Size), make([]error, v.config.Size)
	v.hosts.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			looks[0], errs[0] = v.trees().Look(v.burst.dir(), list)
		} else if v.own(rank) {
			looks[rank], errs[rank] = rpc.Call(ctx, p, peercall.CallLook, peercall.Globs{Globs: list})
		}
	})
	return looks, errors.Join(errs...)
}

// gatherAll brings what patterns match on other hosts to where what this one has of
// it is.
func (v *volumes) gatherAll(ctx context.Context, globs []string, into string) error {
	if len(globs) == 0 {
		return nil
	}
	for rank := 1; rank < v.config.Size; rank++ {
		if !v.own(rank) {
			continue
		}
		if err := v.gather(ctx, rank, globs, into); err != nil {
			return peercall.FailedOn(v.config.Host.Name, "copy the files of a checkpoint of", fmt.Errorf("%s: %w", v.hosts.nameOf(rank), err))
		}
	}
	return nil
}

// gather takes from a node the files of its volume that a directory has not: the
// node lists what it has, the head picks, the node sends.
func (v *volumes) gather(ctx context.Context, rank int, list []string, into string) error {
	have, err := fsutil.OpenRoot(into)
	if err != nil {
		return err
	}
	defer have.Close()
	p, err := v.peers.Peer(ctx, rank)
	if err != nil {
		return err
	}
	s, _, err := rpc.Open(ctx, p, peercall.CallGather, peercall.Globs{Globs: list})
	if err != nil {
		return err
	}
	defer s.Close()
	var missing []string
	for {
		m, err := rpc.Receive[peercall.Names](s, peercall.MaxNames)
		if err != nil {
			return err
		}
		if len(m.Files) == 0 {
			break
		}
		for _, f := range m.Files {
			if treesync.Lacks(have, f) {
				missing = append(missing, f)
			}
		}
	}
	some := len(missing) > 0
	for len(missing) > 0 {
		k := min(peercall.Batch, len(missing))
		if err := rpc.Send(s, peercall.Names{Files: missing[:k]}, peercall.MaxNames); err != nil {
			return err
		}
		missing = missing[k:]
	}
	if err := rpc.Send(s, peercall.Names{}, peercall.MaxNames); err != nil || !some {
		return err
	}
	return treesync.Receive(ctx, s, into)
}

// globsOf gives those of some container paths that are in the volume, relative to it.
func globsOf(p *plan.Plan, paths []string) []string {
	var globs []string
	for _, file := range paths {
		if file = path.Clean(file); file == path.Clean(p.Volume) {
			globs = append(globs, ".")
		} else if rel, ok := p.InVolume(file); ok {
			globs = append(globs, rel)
		}
	}
	return globs
}

// checkpointGlobs are what a checkpoint consists of, relative to the volume.
func checkpointGlobs(p *plan.Plan) []string {
	if len(p.Checkpoint.Paths) == 0 {
		return []string{snapshot.Whole}
	}
	return volumeGlobs(p, p.Checkpoint.Paths)
}

// volumeGlobs are patterns of files in the volume, relative to it.
func volumeGlobs(p *plan.Plan, files []string) []string {
	var globs []string
	for _, file := range files {
		file = path.Clean(file)
		if file == path.Clean(p.Volume) {
			return []string{snapshot.Whole}
		}
		if rel, is := p.InVolume(file); is {
			globs = append(globs, rel)
		}
	}
	return globs
}
