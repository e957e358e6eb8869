package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sync/errgroup"
)

// Keep implements driver.Checkpoints. What an earlier Keep that was cut short has
// brought is there already, as packs that no manifest refers to.
func (s *checkpoints) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	begun := time.Now()
	all, err := s.generations(ctx)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	if kept, whole, err := s.whole(ctx, all, g); whole || err != nil {
		return kept, false, err
	}
	m, err := s.gather(ctx, all, g, site, from)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	return s.record(ctx, &m, g, begun)
}

// whole returns a checkpoint that is kept already, with all that it consists of.
func (s *checkpoints) whole(ctx context.Context, all []manifest, g driver.Generation) (driver.Manifest, bool, error) {
	i := slices.IndexFunc(all, func(m manifest) bool { return m.generation == g && !m.broken })
	if i < 0 {
		return driver.Manifest{}, false, nil
	}
	err := s.present(ctx, all[i])
	if isDamage(err) {
		return driver.Manifest{}, false, nil
	}
	return all[i].Manifest, err == nil, err
}

// gather stores the data of a tree, and returns what the checkpoint consists of.
func (s *checkpoints) gather(ctx context.Context, all []manifest, g driver.Generation, site string, from driver.Source) (manifest, error) {
	m := manifest{Version: manifestVersion, Manifest: driver.Manifest{Attempt: g.Attempt, Site: site, Files: map[string]string{}}}
	there, bits, err := s.there(ctx, all, site)
	if err == nil {
		err = s.receive(ctx, &m, there, bits, from)
	}
	return m, err
}

// record completes a checkpoint, and removes what is not kept any more.
func (s *checkpoints) record(ctx context.Context, m *manifest, g driver.Generation, begun time.Time) (driver.Manifest, bool, error) {
	m.Taken, m.Took = time.Now(), time.Since(begun)
	raw, err := m.format()
	if err != nil {
		return driver.Manifest{}, false, err
	}
	if err := s.objects.Put(ctx, s.prefix+manifests+g.String(), raw); err != nil {
		return driver.Manifest{}, false, err
	}
	return m.Manifest, true, s.collect(ctx)
}

// there gives the chunks that are in the store already and that a site may use, and their size. Packs
// of which little is used are left out, a few at a time: so what is used comes
// again, and they go in the end.
func (s *checkpoints) there(ctx context.Context, all []manifest, site string) (*stock, int, error) {
	found, err := s.objects.List(ctx, s.prefix+packs)
	if err != nil {
		return nil, 0, err
	}
	rotten, err := s.objects.List(ctx, s.prefix+bad)
	if err != nil {
		return nil, 0, err
	}
	bits, spare, budget := 0, map[string]bool{}, int64(0)
	for _, m := range all {
		if m.broken || !treesync.IsChunkSize(m.Bits) { // a host may have written it
			continue
		}
		bits, spare, budget = m.Bits, map[string]bool{}, m.Bytes/8
		for _, p := range m.Packs {
			if p.Live < p.Size/2 && p.Live <= budget && len(m.Packs) > 1 {
				spare[p.Name], budget = true, budget-p.Live
			}
		}
	}
	var list []object
	for name, size := range found {
		o := object{Name: path.Base(name), Size: size}
		if !isFor(site, o.Name) {
			continue
		}
		if own := bitsOf(o.Name); bits == 0 && treesync.IsChunkSize(own) {
			bits = own
		}
		_, is := rotten[s.prefix+bad+o.Name]
		if bitsOf(o.Name) == bits && !spare[o.Name] && !is {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b object) int { return strings.Compare(a.Name, b.Name) })
	k, err := s.load(ctx, list, false)
	return k, bits, err
}

// receive brings a tree into the store and completes its manifest.
func (s *checkpoints) receive(ctx context.Context, m *manifest, there *stock, bits int, from driver.Source) error {
	tree, err := from.Send(ctx)
	if err != nil {
		return err
	}
	defer tree.Close()
	up, upCtx := errgroup.WithContext(ctx)
	up.SetLimit(uploads)
	stop := context.AfterFunc(upCtx, func() { tree.Close() }) // so that nobody waits for more of it without success
	defer stop()
	names := make([]treesync.Name, 0, len(there.at))
	for name := range there.at {
		names = append(names, name)
	}
	if err := treesync.ReportKnown(tree, bits, names); err != nil {
		return err
	}
	f := &filler{checkpoints: s, ctx: upCtx, up: up, m: m, stock: there, bits: bits, seen: map[treesync.Name]bool{}, live: map[uint32]int64{}}
	pieces := &pieces{filler: f}
	err = treesync.Shelve(upCtx, tree, pieces, bits, f)
	if err == nil {
		err = errors.Join(f.flush(), pieces.flush())
	}
	if upErr := up.Wait(); upErr != nil { // it is why the rest was given up
		return upErr
	}
	if err != nil {
		return err
	}
	m.Bits = f.bits
	for i, o := range there.packs {
		if o.Live = f.live[uint32(i)]; o.Live > 0 {
			m.Packs = append(m.Packs, o)
		}
	}
	return nil
}

// uploads is how many objects are sent at a time, each from memory.
const uploads = 4

// filler is the store on which a tree's data are put: packs.
type filler struct {
	*checkpoints
	ctx   context.Context // of one receive
	up    *errgroup.Group
	m     *manifest
	stock *stock
	bits  int
	open  pack
	seen  map[treesync.Name]bool
	live  map[uint32]int64 // bytes used of each pack
}

// Begin implements treesync.ChunkSink.
func (f *filler) Begin(bits int) { f.bits = bits }

// Put implements treesync.ChunkSink.
func (f *filler) Put(name treesync.Name, data []byte) error {
	if f.seen[name] {
		return nil
	}
	f.seen[name] = true
	at, is := f.stock.at[name]
	if !is {
		if data == nil {
			return errors.New("a chunk is named that nobody knows")
		}
		if len(f.open.data)+len(data) > packBytes {
			if err := f.flush(); err != nil {
				return err
			}
		}
		at = chunkAt{uint32(len(f.stock.packs)), uint32(f.open.add(name, data)), uint32(len(data))}
		f.stock.at[name] = at
	}
	f.live[at.pack] += int64(at.length)
	return f.ctx.Err()
}

// File implements treesync.ChunkSink.
func (f *filler) File(path string, digest [sha256.Size]byte, size int64) {
	f.m.Files[path] = hex.EncodeToString(digest[:])
	f.m.Bytes += size
}

// flush sends the open pack.
func (f *filler) flush() error {
	if len(f.open.data) == 0 {
		return nil
	}
	name, raw := f.open.finish(f.bits)
	f.stock.packs = append(f.stock.packs, object{Name: name, Size: int64(len(raw))})
	f.open = pack{}
	f.up.Go(func() error {
		if err := f.objects.Put(f.ctx, f.prefix+packs+name, raw); err != nil {
			return err
		}
		return f.objects.Delete(f.ctx, []string{f.prefix + bad + name}) // it is good now
	})
	return f.ctx.Err()
}

// pieces sends the tree in objects of their own.
type pieces struct {
	*filler
	buf []byte
}

// Write implements io.Writer.
func (p *pieces) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	if len(p.buf) >= packBytes {
		return len(b), p.flush()
	}
	return len(b), nil
}

func (p *pieces) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	name := digest(p.buf)
	p.m.Tree = append(p.m.Tree, object{Name: name, Size: int64(len(p.buf))})
	raw := p.buf
	p.buf = nil
	p.up.Go(func() error { return p.objects.Put(p.ctx, p.prefix+trees+name, raw) })
	return p.ctx.Err()
}
