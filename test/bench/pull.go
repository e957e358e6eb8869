package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// imageSizes are the contents of the images that are pulled, in bytes: 700 MB
// unpacked, and about 700 MB as they travel.
var imageSizes = []int64{700 << 20, 1800 << 20}

// pull compares getting a large image from a registry on loopback, unpacked and
// ready to run, alternately.
func (m imageBench) pull(rounds int) error {
	addr, stop, err := m.registry()
	if err != nil {
		return err
	}
	defer stop()
	for i, size := range imageSizes {
		ref := addr + "/bench/large:" + strconv.Itoa(i)
		compressed, err := m.push(ref, size, 4)
		if err != nil {
			return err
		}
		programs := []struct{ name, script string }{
			{"bee image pull", "BEE_CACHE=store/bee " + m.b.bee + " image pull " + ref},
			{"podman pull", "podman --root $PWD/store/podman --runroot $PWD/store/podman-run --storage-driver overlay pull -q --tls-verify=false " + ref},
			{"skopeo and umoci", "skopeo copy -q --src-tls-verify=false docker://" + ref + " oci:store/oci:1 && umoci unpack --image store/oci:1 store/bundle"},
		}
		times := make([][]time.Duration, len(programs))
		for range max(rounds/10, 1) {
			for k, p := range programs {
				took, err := m.onEmptyStore(p.script)
				if err != nil {
					return err
				}
				times[k] = append(times[k], took)
			}
		}
		for k := range times {
			slices.Sort(times[k])
		}
		bee := times[0][len(times[0])/2]
		what := fmt.Sprintf("pull and unpack of an image of %d MB (%d MB compressed, 4 layers), from a registry on loopback", size>>20, compressed>>20)
		for k, p := range programs[1:] {
			m.b.row(what, bee, p.name, times[k+1][len(times[k+1])/2])
			what = "the same"
		}
	}
	return nil
}

// onEmptyStore times a script on an empty directory named store, with nothing
// left to be written to the disk from before.
func (m imageBench) onEmptyStore(script string) (time.Duration, error) {
	if err := os.MkdirAll(m.b.dir+"/store", 0o755); err != nil {
		return 0, err
	}
	defer func() {
		exec.Command("umount", m.b.dir+"/store/podman/overlay").Run() //nolint:errcheck // podman leaves it mounted, if it came to that
		exec.Command("rm", "-rf", m.b.dir+"/store").Run()             //nolint:errcheck // the next round fails if it stays
	}()
	syscall.Sync()
	return m.b.once("sh", "-c", script)
}

// registry starts a registry on a free port of loopback.
func (m imageBench) registry() (addr string, stop func(), err error) {
	free, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	addr = free.String()
	text := "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: " + m.b.dir + "/registry}}\nhttp: {addr: " + strconv.Quote(addr) + "}\n"
	if err := m.b.write("registry.yaml", text); err != nil {
		return "", nil, err
	}
	if stop, err = m.b.serve("docker-registry", "serve", "registry.yaml"); err != nil {
		return "", nil, err
	}
	for range 200 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return addr, stop, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	return "", nil, errors.New("the registry does not start")
}
