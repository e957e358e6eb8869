package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Images is where an account keeps images that machines boot. Those of bee have a name, a digest and an installation.
type Images interface {
	// List returns those of bee that are the account's own, also what uploads have left.
	List(ctx context.Context) ([]driver.MachineImage, error)
	// Upload makes a whole image of a disk, with the name, the digest, the installation and the time in like. Content that
	// is Uploaded in like is not sent again. What was sent is compared with the disk before the image is whole. With an
	// error, it returns what is left to be ended, if anything.
	Upload(ctx context.Context, like driver.MachineImage, d driver.MachineDisk, report func(done, total int64)) (driver.MachineImage, error)
	// Prefer sets when an image became the one of its name.
	Prefer(ctx context.Context, i driver.MachineImage, pushed time.Time) error
	// End removes an image with what it is made of, or what is left of it. What is gone is no error. Busy: something uses it.
	End(ctx context.Context, i driver.MachineImage) error
}

// ownImage is how an image's name in a sites file begins that bee has pushed.
const ownImage = "bee:"

// OwnImage returns the name of an image that bee has pushed, by what a sites file has; false: it is another one.
func OwnImage(text string) (name string, is bool) { return strings.CutPrefix(text, ownImage) }

// ImageName is what an image of a disk is called in the cloud: by its content, and by whose it is.
func ImageName(i driver.MachineImage) string {
	digest := strings.TrimPrefix(i.Digest, digestAlgorithm)
	return "bee-" + i.Name + "-" + digest[:min(len(digest), 24)] + "-" + i.Installation
}

const digestAlgorithm = "sha256:"

// errDigest is the cause of the error of a disk that is not what it was.
var errDigest = errors.New("its content has another digest than when it was built")

// WrongDigest is the error of a disk that is not what it was.
func WrongDigest(d driver.MachineDisk) error {
	return &core.Error{Kind: core.Permanent, Op: "read the disk of image", Object: d.Name, Err: errDigest, Remedy: fmt.Sprintf("Build it again by `bee cloud image build --again %s`.", d.Name)}
}

// Chosen returns the image of a name for an architecture that a site's machines boot: the one that was pushed last, of
// this installation if it has one. The error lists what there is, and is Unsupported.
func (s Settings) Chosen(all []driver.MachineImage, name, arch string) (driver.MachineImage, error) {
	var fit []driver.MachineImage
	var names, others []string
	for _, i := range all {
		switch {
		case i.Name != name:
			if i.Whole {
				names = append(names, i.Name)
			}
		case !i.Whole:
			others = append(others, cmp.Or(core.Printable(i.State, 40), "not whole"))
		case arch != "" && i.Arch != arch:
			others = append(others, "for "+core.Printable(i.Arch, 20))
		default:
			fit = append(fit, i)
		}
	}
	if len(fit) > 0 {
		one := slices.MaxFunc(fit, func(x, y driver.MachineImage) int {
			return cmp.Or(compare(s.isOwn(x), s.isOwn(y)), x.Pushed.Compare(y.Pushed), strings.Compare(x.ID, y.ID))
		})
		one.Own = s.isOwn(one)
		return one, nil
	}
	e := &core.Error{Kind: core.Unsupported, Op: "use", Object: fmt.Sprintf("image %q of site %s", ownImage+name, s.Name), Remedy: fmt.Sprintf("Run `bee cloud image push %s --site %s`.", name, s.Name)}
	switch {
	case len(others) > 0 && arch != "":
		slices.Sort(others)
		e.Err = fmt.Errorf("the account has none for %s; it has one that is %s", arch, strings.Join(slices.Compact(others), ", and one that is "))
	case len(others) > 0:
		e.Err = fmt.Errorf("it is %s", strings.Join(others, ", "))
	case len(names) > 0:
		e.Err = fmt.Errorf("it was not pushed there; the account has %s", strings.Join(Nearest(name, names), ", "))
	default:
		e.Err = errors.New("it was not pushed there, and no other one was")
	}
	return driver.MachineImage{}, e
}

// foreignImage warns of an image.
func foreignImage(id string) string {
	return fmt.Sprintf("its machines boot image %s, which another installation of bee has pushed: this one has pushed none of that name", core.Printable(id, 80))
}

// compare is as cmp.Compare: true is more than false.
func compare(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

func (s Settings) isOwn(i driver.MachineImage) bool {
	return s.Installation != "" && i.Installation == s.Installation
}

// Images implements driver.Inventory.
func (i inventory) Images() driver.MachineImages {
	if i.p.api.Images() == nil {
		return nil
	}
	return machineImages{i.p.s, i.p.api.Images()}
}

// machineImages implements driver.MachineImages.
type machineImages struct {
	s    Settings
	kept Images
}

// List implements driver.MachineImages.
func (m machineImages) List(ctx context.Context) ([]driver.MachineImage, error) {
	all, err := m.kept.List(ctx)
	for n := range all {
		all[n].Own = m.s.isOwn(all[n])
	}
	slices.SortStableFunc(all, func(x, y driver.MachineImage) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), y.Pushed.Compare(x.Pushed), strings.Compare(x.ID, y.ID))
	})
	return all, err
}

// pushLock is the file by which one process of an installation pushes at a time. No directory of a site has its name: a
// percent sign is escaped there.
const pushLock = "%push"

// lockFile returns its path, below what all sites share.
func (m machineImages) lockFile() (string, error) {
	dir := filepath.Dir(m.s.Dir)
	return filepath.Join(dir, pushLock), fsutil.MkdirAll(dir, 0o700)
}

// tryLock takes that lock. Busy: another process pushes, or removes images.
func (m machineImages) tryLock() (*fsutil.Lock, error) {
	path, err := m.lockFile()
	if err != nil {
		return nil, err
	}
	lock, err := fsutil.TryLockFor(path, fsutil.Momentary)
	if core.IsKind(err, core.Busy) {
		err = &core.Error{
			Kind: core.Busy, Op: "change images of site", Object: m.s.Name, Err: errors.New("another process of this installation pushes an image, or removes some"),
			Remedy: "Wait until it has ended, or end it, and give the command again.",
		}
	}
	return lock, err
}

// Push implements driver.MachineImages.
func (m machineImages) Push(ctx context.Context, d driver.MachineDisk, report func(done, total int64)) (driver.MachineImage, bool, error) {
	fail := func(err error) (driver.MachineImage, bool, error) {
		if ctx.Err() != nil {
			return driver.MachineImage{}, false, context.Cause(ctx)
		}
		return driver.MachineImage{}, false, &core.Error{Kind: core.KindOf(err), Op: "push image to site", Object: m.s.Name, Err: err, Remedy: core.Remedy(err)}
	}
	if m.s.Installation == "" {
		return fail(errors.New("whose it would be is not known"))
	}
	path, err := m.lockFile()
	if err != nil {
		return fail(err)
	}
	lock, err := fsutil.LockFile(ctx, path)
	if err != nil {
		return fail(err)
	}
	defer lock.Unlock()
	all, err := m.List(ctx)
	if err != nil {
		return fail(err)
	}
	same, newest, others := m.sort(all, d)
	if err := m.unusable(all, same, d); err != nil {
		return fail(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	for _, i := range all { // whatever the clocks say
		if i.Whole && i.Name == d.Name && !now.After(i.Pushed) {
			now = i.Pushed.Add(time.Millisecond)
		}
	}
	for _, i := range others { // what does not go now, is listed and removed later
		core.BestEffort(m.kept.End(ctx, i))
	}
	if same.Whole {
		if !same.Pushed.After(newest) { // it is to be the one of its name again
			if err := m.kept.Prefer(ctx, same, now); err != nil {
				return fail(err)
			}
			same.Pushed = now
		}
		return same, true, nil
	}
	like := driver.MachineImage{Name: d.Name, Digest: d.Digest, Arch: d.Arch, User: d.User, Size: d.Size, Installation: m.s.Installation, Own: true, Pushed: now}
	if same.Uploaded {
		like.ID, like.Source, like.Uploaded = same.ID, same.Source, true
	}
	made, err := m.kept.Upload(ctx, like, d, report)
	if err == nil {
		made.Own = true
		return made, false, nil
	}
	left := m.undo(ctx, made)
	_, _, err = fail(err)
	return driver.MachineImage{}, false, errors.Join(err, left)
}

// sort finds among images the own one of a disk, whole or uploaded, and when another one of its name was pushed last; and
// what uploads of this installation have left besides.
func (m machineImages) sort(all []driver.MachineImage, d driver.MachineDisk) (same driver.MachineImage, newest time.Time, left []driver.MachineImage) {
	for _, i := range all {
		is := isOf(i, d)
		switch {
		case !i.Own:
		case i.Whole && is:
			if same.ID != "" && same.Left() {
				left = append(left, same)
			}
			same = i
		case i.Whole && i.Name == d.Name && i.Arch == d.Arch && i.Pushed.After(newest):
			newest = i.Pushed
		case i.Whole:
		case i.Uploaded && is && !same.Whole && same.ID == "":
			same = i
		case i.Left():
			left = append(left, i)
		}
	}
	return same, newest, left
}

// isOf reports whether an image has the name, the content and the architecture of a disk.
func isOf(i driver.MachineImage, d driver.MachineDisk) bool {
	return i.Name == d.Name && i.Digest == d.Digest && i.Arch == d.Arch
}

// unusable is the error of a disk whose own image is there, and cannot be booted: the user means that one.
func (m machineImages) unusable(all []driver.MachineImage, same driver.MachineImage, d driver.MachineDisk) error {
	at := slices.IndexFunc(all, func(i driver.MachineImage) bool {
		return i.Own && isOf(i, d) && i.ID != same.ID && !i.Whole && !i.Left()
	})
	if at < 0 || same.Whole {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use image", Object: core.Printable(all[at].ID, 80), Err: fmt.Errorf("it has that content, and its state is %q", core.Printable(all[at].State, 40)),
		Remedy: fmt.Sprintf("Have it activated in the cloud; or remove it by `bee cloud image rm %s --site %s`, and push again.", d.Name, m.s.Name),
	}
}

// undoTime bounds how long the end of what an upload has left may take.
const undoTime = 30 * time.Second

// undo ends what an upload has left: by an interrupt all of it, else what the next one cannot complete.
func (m machineImages) undo(ctx context.Context, left driver.MachineImage) error {
	if left.ID == "" || left.Uploaded && ctx.Err() == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if err := m.kept.End(bounded, left); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "remove what is left of the upload", Object: left.ID, Err: err, Remedy: "Run `bee cloud rm`, or push again: both remove it."}
	}
	return nil
}

// Remove implements driver.MachineImages.
func (m machineImages) Remove(ctx context.Context, name string) (removed, others []driver.MachineImage, err error) {
	lock, err := m.tryLock()
	if err != nil {
		return nil, nil, err
	}
	defer lock.Unlock()
	all, err := m.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	var names []string
	for _, i := range all {
		switch {
		case i.Name != name:
			if i.Own {
				names = append(names, i.Name)
			}
		case !i.Own && i.Whole:
			others = append(others, i)
		case !i.Own:
		default:
			if err := m.kept.End(ctx, i); err != nil {
				errs = append(errs, err)
				continue
			}
			removed = append(removed, i)
		}
	}
	if len(removed) > 0 || len(errs) > 0 {
		return removed, others, errors.Join(errs...)
	}
	e := &core.Error{Kind: core.NotFound, Op: "remove", Object: fmt.Sprintf("image %q of site %s", name, m.s.Name), Err: errors.New("this installation has pushed none there"), Remedy: fmt.Sprintf("List them by `bee cloud image ls --site %s`.", m.s.Name)}
	switch {
	case len(others) > 0:
		e.Err = errors.New("another installation of bee has pushed it")
	case len(names) > 0:
		e.Err = fmt.Errorf("this installation has pushed none of that name there, but %s", strings.Join(Nearest(name, names), ", "))
	}
	return nil, others, e
}

// Clean implements driver.MachineImages.
func (m machineImages) Clean(ctx context.Context, dry bool) ([]driver.MachineImage, error) {
	lock, err := m.tryLock()
	if core.IsKind(err, core.Busy) { // an upload is under way, which cleans up itself
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	all, err := m.List(ctx)
	if err != nil { // of a part, it is not known what is whole
		return nil, err
	}
	var left []driver.MachineImage
	var errs []error
	for _, i := range all {
		if !i.Own || !i.Left() {
			continue
		}
		if left = append(left, i); !dry {
			errs = append(errs, m.kept.End(ctx, i))
		}
	}
	return left, errors.Join(errs...)
}
