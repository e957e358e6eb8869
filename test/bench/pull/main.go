// Command pull measures how long it takes to get a large image from a registry
// on loopback, unpacked and ready to run: bee against podman, and against
// skopeo with umoci. The image is made of files of this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

type bench struct {
	bee, dir, ref string
	rounds        int
}

func main() {
	var b bench
	flag.StringVar(&b.bee, "bee", "bin/bee", "the binary to measure")
	flag.IntVar(&b.rounds, "rounds", 3, "how often each is measured; the median counts")
	size := flag.Int64("size", 700, "content of the image in MB")
	layers := flag.Int("layers", 4, "number of layers")
	compression := flag.String("compression", "gzip", "gzip or zstd")
	flag.Parse()
	if err := b.run(*size<<20, *layers, *compression); err != nil {
		fmt.Fprintln(os.Stderr, "pull:", err)
		os.Exit(1)
	}
}

func (b *bench) run(size int64, layers int, compression string) (err error) {
	if b.bee, err = filepath.Abs(b.bee); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("/var/tmp", "bee-bench-pull-"); err != nil {
		return err
	}
	defer exec.Command("rm", "-rf", b.dir).Run() //nolint:errcheck // a temporary directory
	stop, err := b.registry()
	if err != nil {
		return err
	}
	defer stop()
	compressed, err := b.push(size, layers, compression)
	if err != nil {
		return err
	}
	programs := []struct {
		name   string
		script string
	}{
		{"bee image pull", "BEE_CACHE=$DIR/bee $BEE image pull $REF"},
		{"podman pull", "podman --root $DIR/podman --runroot $DIR/podman-run --storage-driver overlay pull -q --tls-verify=false $REF"},
		{"skopeo + umoci", "skopeo copy -q --src-tls-verify=false docker://$REF oci:$DIR/oci:1 && umoci unpack --image $DIR/oci:1 $DIR/bundle"},
	}
	fmt.Printf("an image of %d MB in %d %s layers (%d MB compressed), median of %d\n\n| | seconds | bee's share |\n|---|---|---|\n", size>>20, layers, compression, compressed>>20, b.rounds)
	times := make([][]time.Duration, len(programs))
	for range b.rounds {
		for i, p := range programs {
			took, err := b.time(p.script)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			times[i] = append(times[i], took)
		}
	}
	bee := median(times[0])
	for i, p := range programs {
		m := median(times[i])
		fmt.Printf("| %s | %.2f | %.2f |\n", p.name, m.Seconds(), bee.Seconds()/m.Seconds())
	}
	return nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// time runs a script on an empty store, with nothing left to be written to the
// disk from before.
func (b *bench) time(script string) (time.Duration, error) {
	dir := filepath.Join(b.dir, "store")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	defer exec.Command("rm", "-rf", dir).Run() //nolint:errcheck // the next round fails if it stays
	syscall.Sync()
	c := exec.Command("sh", "-c", script)
	c.Env = append(os.Environ(), "DIR="+dir, "REF="+b.ref, "BEE="+b.bee)
	begun := time.Now()
	out, err := c.CombinedOutput()
	took := time.Since(begun)
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return took, nil
}

// registry starts a registry on a free port of loopback.
func (b *bench) registry() (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	b.ref = addr + "/bench/large:1"
	config := filepath.Join(b.dir, "registry.yaml")
	text := "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: " + b.dir + "/registry}}\nhttp: {addr: " + strconv.Quote(addr) + "}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	c := exec.Command("docker-registry", "serve", config)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return func() { c.Process.Kill(); c.Wait() }, nil //nolint:errcheck // it ends with us
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.New("the registry does not start")
}

// push makes the image from files below /usr and sends it to the registry.
func (b *bench) push(size int64, layers int, compression string) (compressed int64, err error) {
	files, err := content(size)
	if err != nil {
		return 0, err
	}
	var list []mutate.Addendum
	for i := range layers {
		part := files[i*len(files)/layers : (i+1)*len(files)/layers]
		tarFile := filepath.Join(b.dir, fmt.Sprintf("layer%d.tar", i))
		c := exec.Command("tar", "-C", "/", "--no-recursion", "--null", "-T", "-", "-cf", tarFile)
		c.Stdin = strings.NewReader(strings.Join(part, "\x00"))
		if out, err := c.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("tar: %w\n%s", err, out)
		}
		kind := types.OCILayer
		if compression == "zstd" {
			kind = types.OCILayerZStd
			if tarFile, err = zstdFile(tarFile); err != nil {
				return 0, err
			}
		}
		layer, err := tarball.LayerFromFile(tarFile, tarball.WithCompressionLevel(6), tarball.WithMediaType(kind))
		if err != nil {
			return 0, err
		}
		n, err := layer.Size()
		if err != nil {
			return 0, err
		}
		compressed += n
		list = append(list, mutate.Addendum{Layer: layer, MediaType: kind})
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), list...)
	if err != nil {
		return 0, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return 0, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", v1.Config{Cmd: []string{"/bin/true"}}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return 0, err
	}
	ref, err := name.ParseReference(b.ref)
	if err != nil {
		return 0, err
	}
	return compressed, remote.Write(ref, image)
}

// content lists files below /usr of about a size in all.
func content(size int64) ([]string, error) {
	var files []string
	enough := errors.New("enough")
	for _, root := range []string{"/usr/bin", "/usr/share/perl", "/usr/share/doc", "/usr/lib/python3", "/usr/include", "/usr/lib/gcc", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/share"} {
		err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
			if err != nil || info.Size() > 60<<20 {
				return nil //nolint:nilerr // whatever else there is will do
			}
			files = append(files, p[1:])
			if info.Mode().IsRegular() {
				size -= info.Size()
			}
			if size < 0 {
				return enough
			}
			return nil
		})
		if errors.Is(err, enough) {
			return files, nil
		}
	}
	return nil, errors.New("this machine has too few files for so large an image")
}

func zstdFile(tarFile string) (string, error) {
	in, err := os.Open(tarFile)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.Create(tarFile + ".zst")
	if err != nil {
		return "", err
	}
	defer out.Close()
	z, err := zstd.NewWriter(out)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(z, in); err != nil {
		return "", err
	}
	return out.Name(), errors.Join(z.Close(), out.Close())
}
