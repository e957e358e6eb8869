package rdma

import (
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// Libraries is an image's rdma-core: libibverbs, and its providers, of which each drives
// the devices of one driver.
type Libraries struct {
	// Version is that of rdma-core; 0: it is from before 2016.
	Version int
	// Interface is the version of the interface between libibverbs and its providers; 0:
	// not known.
	Interface int
	// Providers are the interfaces that each is made for, by its name.
	Providers map[string][]int
}

// Bounds of what is read of an image.
const (
	maxNames   = 100_000
	maxLibrary = 8 << 20
)

// libraryDirs are where linkers look for libraries of 64 bits. Those elsewhere, such as of
// conda, are not found.
func libraryDirs() []string {
	return []string{
		"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu",
		"/lib/aarch64-linux-gnu", "/lib64", "/lib", "/usr/local/lib64", "/usr/local/lib",
	}
}

var (
	// libraryForm is libibverbs with its versions: those of its soname and interface, then
	// that of rdma-core.
	libraryForm = regexp.MustCompile(`^libibverbs\.so\.1\.\d+\.(\d+)(\.\d+)?$`)
	// providerForm is the file of a provider.
	providerForm = regexp.MustCompile(`^lib([a-z0-9_]+)-rdmav(\d+)\.so$`)
	// suffixForm is how libibverbs names such files.
	suffixForm = regexp.MustCompile(`-rdmav(\d+)\.so`)
)

// LibrariesIn looks for rdma-core in the unpacked tree of an image; nil: there is none. Links
// in the tree stay in it.
func LibrariesIn(tree string) (*Libraries, error) {
	for _, dir := range libraryDirs() {
		names, err := namesIn(tree, dir)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(names, libraryForm.MatchString)
		if at < 0 {
			continue
		}
		l := &Libraries{Providers: map[string][]int{}}
		l.Version = digits(libraryForm.FindStringSubmatch(names[at])[1])
		if l.Interface, err = interfaceOf(tree, path.Join(dir, names[at])); err != nil {
			return nil, err
		}
		providers, err := namesIn(tree, path.Join(dir, "libibverbs"))
		if err != nil {
			return nil, err
		}
		for _, name := range providers {
			if m := providerForm.FindStringSubmatch(name); m != nil {
				l.Providers[m[1]] = append(l.Providers[m[1]], digits(m[2]))
			}
		}
		return l, nil
	}
	return nil, nil
}

// digits reads digits that a pattern has found; too many are 0.
func digits(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// namesIn lists a directory of a tree; none: there is no such directory.
func namesIn(tree, dir string) ([]string, error) {
	f, err := openIn(tree, dir, unix.O_DIRECTORY)
	if f == nil || err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if err == io.EOF { //nolint:errorlint // as it is documented
		err = nil
	}
	slices.Sort(names)
	return names, err
}

// openIn opens a file of a tree as a process inside would; nil: there is none.
func openIn(tree, inside string, flags int) (*os.File, error) {
	at, err := securejoin.SecureJoin(tree, inside)
	if err != nil {
		return nil, nil // links in a circle lead to no file
	}
	f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|flags, 0)
	if err != nil {
		return nil, nil // a file that cannot be read is of no use to programs either
	}
	return f, nil
}

// interfaceOf finds in libibverbs which providers it loads; 0: the file does not show it.
func interfaceOf(tree, file string) (int, error) {
	f, err := openIn(tree, file, 0)
	if f == nil || err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxLibrary))
	if err != nil {
		return 0, fmt.Errorf("read %s of the image: %w", file, err)
	}
	if m := suffixForm.FindSubmatch(raw); m != nil {
		return digits(string(m[1])), nil
	}
	return 0, nil
}

// providers are those for the devices of a driver of the kernel, by its name in sysfs: that
// of the function of the card, which for several is its Ethernet driver's.
func providers() map[string][]string {
	return map[string][]string{
		"mlx5_core": {"mlx5"}, "mlx4_core": {"mlx4"}, "ib_mthca": {"mthca"}, "ice": {"irdma"}, "i40e": {"irdma", "i40iw"}, "bnxt_en": {"bnxt_re"},
		"hfi1": {"hfi1verbs"}, "ib_qib": {"ipathverbs"}, "efa": {"efa"}, "erdma": {"erdma"}, "cxgb4": {"cxgb4"}, "hns3": {"hns"}, "qede": {"qedr"}, "rdma_rxe": {"rxe"},
	}
}

// Lack returns the problem of libraries that cannot drive a device; nil: they can, or it is not
// known. An image without rdma-core may have other libraries for the device.
func (l *Libraries) Lack(d Device) *Problem {
	wanted := providers()[d.Driver]
	if l == nil || len(wanted) == 0 {
		return nil
	}
	remedy := "Install the providers of rdma-core in the image (Debian: ibverbs-providers; Red Hat and SUSE: libibverbs), of one version with libibverbs."
	if l.Version == 0 {
		return &Problem{"the image's libibverbs is older than rdma-core, and has no driver for " + d.Name, remedy}
	}
	var made []int
	for _, name := range wanted {
		made = append(made, l.Providers[name]...)
	}
	switch {
	case len(made) == 0:
		return &Problem{fmt.Sprintf("the image's rdma-core %d has no provider %s, which device %s needs", l.Version, wanted[0], d.Name), remedy}
	case l.Interface > 0 && !slices.Contains(made, l.Interface):
		return &Problem{fmt.Sprintf("the image's provider %s for device %s is made for another libibverbs (interface %d, expected %d)", wanted[0], d.Name, made[0], l.Interface), remedy}
	}
	return nil
}
