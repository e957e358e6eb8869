package s3

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sync/errgroup"
)

// atOnce bounds how many objects are got at a time.
const atOnce = 8

// mostChunks bounds the chunks of a run's packs: those of its checkpoints together have
// fewer, however large its volume is (see chunk.BitsFor).
const mostChunks = 1 << 25

// firstTail is how much of a pack's end is got first: mostly all of its index.
const firstTail = 128 << 10

// stock knows where chunks are.
type stock struct {
	*checkpoints
	packs []object
	at    map[treesync.Name]chunkAt
}

// load reads the indexes of packs. One that is not whole is damage where strict;
// else it is left out, as its chunks are of no use.
func (s *checkpoints) load(ctx context.Context, list []object, strict bool) (*stock, error) {
	k := &stock{checkpoints: s, packs: list, at: map[treesync.Name]chunkAt{}}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * atOnce)
	for i, o := range list {
		g.Go(func() error {
			index, err := s.index(ctx, o)
			if isDamage(err) && !strict {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if len(k.at)+len(index)/entryBytes > mostChunks {
				return damaged("there are more chunks than a run has", o.Name)
			}
			eachEntry(index, func(name treesync.Name, offset, length uint32) { k.at[name] = chunkAt{uint32(i), offset, length} })
			return nil
		})
	}
	return k, g.Wait()
}

func (s *checkpoints) index(ctx context.Context, o object) ([]byte, error) {
	if o.Size < int64(footBytes) || o.Size > mostObject {
		return nil, damaged("a pack is not of a size that it can have", o.Name)
	}
	need := int64(firstTail)
	for {
		tail, err := s.objects.Get(ctx, s.prefix+packs+o.Name, -min(need, o.Size), 0)
		if core.IsKind(err, core.NotFound) {
			return nil, damaged("a pack is gone", o.Name)
		}
		if err != nil {
			return nil, err
		}
		index, more, err := parseIndex(o.Name, o.Size, tail)
		if err != nil || more <= need {
			if err == nil && index == nil {
				err = damaged("a pack is too short", o.Name)
			}
			return index, err
		}
		need = more
	}
}

// Size implements treesync.Stock.
func (k *stock) Size(name treesync.Name) (int, bool) {
	at, ok := k.at[name]
	return int(at.length), ok
}

// stretch is a part of a pack that is got at once.
type stretch struct {
	pack     uint32
	from, to uint32
	places   []int // of the names that it holds
}

// gap is how much is rather read without need than asked for in two parts.
const gap = 256 << 10

// Get implements treesync.Stock.
func (k *stock) Get(ctx context.Context, names []treesync.Name) ([][]byte, error) {
	out := make([][]byte, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, s := range k.stretches(names) {
		g.Go(func() error {
			o := k.packs[s.pack]
			raw, err := k.objects.Get(ctx, k.prefix+packs+o.Name, int64(s.from), int64(s.to-s.from))
			if core.IsKind(err, core.NotFound) || err == nil && len(raw) != int(s.to-s.from) {
				return damaged("a pack is gone, or too short", o.Name)
			}
			if err != nil {
				return err
			}
			for _, i := range s.places {
				at := k.at[names[i]]
				data := raw[at.offset-s.from:][:at.length]
				if treesync.NameOf(data) != names[i] {
					core.BestEffort(k.objects.Put(ctx, k.prefix+bad+o.Name, []byte("damaged\n"))) // else it is found again
					return damaged("data in a pack are not what they were", o.Name)
				}
				out[i] = data
			}
			return nil
		})
	}
	return out, g.Wait()
}

func (k *stock) stretches(names []treesync.Name) []stretch {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := k.at[names[i]], k.at[names[j]]
		return cmp.Or(cmp.Compare(a.pack, b.pack), cmp.Compare(a.offset, b.offset))
	})
	var list []stretch
	for _, i := range order {
		at := k.at[names[i]]
		if n := len(list); n > 0 && list[n-1].pack == at.pack && at.offset <= list[n-1].to+gap {
			s := &list[n-1]
			s.to, s.places = max(s.to, at.offset+at.length), append(s.places, i)
			continue
		}
		list = append(list, stretch{at.pack, at.offset, at.offset + at.length, []int{i}})
	}
	return list
}

func isDamage(err error) bool { return errors.Is(err, driver.ErrDamaged) }
