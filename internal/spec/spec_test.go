package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestGoodBeefile(t *testing.T) {
	j, err := ParseJob("/home/ann/job.yaml", []byte(`
name: lysozyme
image: docker.io/gromacs/gromacs:2025.1
nodes: 2
ranks_per_node: 4
env: {OMP_NUM_THREADS: 1, DEBUG: true}
inputs: [{from: ./input, to: /work}]
setup: gmx grompp
run: [mpirun, gmx_mpi, mdrun]
outputs: [{from: /work/md.*, to: ./results}]
secrets: {TOKEN: {env: MY_TOKEN}}
gpus: all
timeout: 1h30m
entrypoint: []
sites: [laptop, lab]
`), "/home/ann")
	if err != nil {
		t.Fatal(err)
	}
	want := &Job{
		Name: "lysozyme", Image: "docker.io/gromacs/gromacs:2025.1", Nodes: 2, RanksPerNode: 4,
		Env: map[string]string{"OMP_NUM_THREADS": "1", "DEBUG": "true"}, Secrets: map[string]Secret{"TOKEN": {Env: "MY_TOKEN"}},
		Inputs: []Input{{From: "/home/ann/input", To: "/work"}}, Volume: Volume{Path: "/work"}, Entrypoint: &Command{Argv: []string{}},
		Setup: &Command{Shell: "gmx grompp"}, Run: &Command{Argv: []string{"mpirun", "gmx_mpi", "mdrun"}},
		Outputs: []Output{{From: "/work/md.*", To: "/home/ann/results"}}, GPUs: AllGPUs, Timeout: 90 * time.Minute, Sites: []string{"laptop", "lab"}, Dir: "/home/ann",
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("got  %+v\nwant %+v", j, want)
	}
}

func TestAnchorsAndBuildForms(t *testing.T) {
	j, err := ParseJob("x.yaml", []byte("build: &b {debian: bookworm, packages: [hpcc]}\nrun: 'true'\nenv: &e {A: x}\n"), "/d")
	if err != nil || j.Build.Debian != "bookworm" || j.Name != "x" || j.Env["A"] != "x" {
		t.Errorf("got %+v, %v", j, err)
	}
	j, err = ParseJob("x.yaml", []byte("build: ./app\nrun: 'true'\n"), "/d")
	if err != nil || j.Build.Context != "/d/app" {
		t.Errorf("got %+v, %v", j.Build, err)
	}
}

func TestMergeKeys(t *testing.T) {
	j, err := ParseJob("x.yaml", []byte("x-args: &a {B: 2, C: 2}\nbuild: {debian: bookworm, env: &b {A: 1, B: 1}}\nenv: {C: 3, <<: [*b, *a]}\nsecrets: {S: &s {env: X}, T: {<<: *s}}\n"), "/d")
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"A": "1", "B": "1", "C": "3"}; !reflect.DeepEqual(j.Env, want) || j.Secrets["T"].Env != "X" {
		t.Errorf("got %v, %v", j.Env, j.Secrets)
	}
	// The last value before an alias counts, and none may go round.
	j, err = ParseJob("x.yaml", []byte("image: &i one\nname: *i\nworkdir: &i /two\nvolume: *i\n"), "/d")
	if err != nil || j.Name != "one" || j.Volume.Path != "/two" {
		t.Errorf("got %+v, %v", j, err)
	}
	// Keys of the user's own may hold what is merged; elsewhere there are none.
	j, err = ParseJob("x.yaml", []byte("x-common: {env: &e {A: x}, other: 1}\nimage: i\nenv: *e\n"), "/d")
	if err != nil || j.Env["A"] != "x" {
		t.Errorf("got %+v, %v", j, err)
	}
}

// bad returns Beefiles with something wrong in each, by what that is.
func bad() map[string]string {
	return map[string]string{
		"unknown key with a near one":     "image: a\nnodez: 2\n",
		"several at once":                 "image: a\nnodez: 2\nranks_per_node: many\ngpus: some\n",
		"wrong type of list":              "image: a\noutputs: /work/x\n",
		"key of the user's own inside":    "image: a\ninputs: [{x-y: 1, from: ./x, to: /work}]\n",
		"shortened keys":                  "img: a\nenvironment: {A: b}\nvm: {mem: 4G}\n",
		"a word that is empty":            "image: a\nruntime: ''\nplatform: ''\n",
		"no UTF-8":                        "image: a\nname: n\xfc\n",
		"a mark of UTF-8":                 "\ufeffimage: a\nnodez: 1\n",
		"unknown key inside":              "image: a\ninputs: [{form: ./x, to: /work}]\n",
		"twice":                           "image: a\nenv: {A: 1, A: 2}\nnodes: 1\nnodes: 2\nretry: many\nuser: ann\n",
		"twice in what is merged":         "image: a\nx-common: &c {A: 1, A: 2}\nenv: {<<: *c, <<: *c}\n",
		"twice, the first value checked":  "image: a\nnodes: 0\nnodes: 2\nnodes: many\nvm: {cpus: -1}\nvm: {cpus: 1}\n",
		"keys that cannot be, and values": "image: a\nbuild: .\nresume: x\nenv: {1A: x}\nvm:\n  image: b\n  packages: [c]\noutputs:\n- to: x\nvolume:\n  path:\n    a: b\n",
		"merged into itself":              "image: i\nenv: &e {A: x, <<: *e}\n",
		"no image":                        "run: x\n",
		"both":                            "image: a\nbuild: .\n",
		"impossible number":               "image: a\nnodes: 0\n",
		"output outside the volume":       "image: a\noutputs: [{from: /tmp/x, to: .}]\n",
		"relative volume":                 "image: a\nvolume: work\n",
		"root as volume":                  "image: a\nvolume: /\n",
		"bad variable":                    "image: a\nenv: {1A: x}\n",
		"secret of two sources":           "image: a\nsecrets: {T: {env: A, file: b}}\n",
		"secret that is a variable":       "image: a\nenv: {T: x}\nsecrets: {T: {env: A}}\n",
		"bad runtime":                     "image: a\nruntime: dokcer\n",
		"bad duration":                    "image: a\ntimeout: soon\n",
		"negative duration":               "image: a\ntimeout: -5s\n",
		"two documents":                   "image: a\n---\nimage: b\n",
		"not a mapping":                   "- a\n",
		"empty":                           "",
		"not YAML":                        "image: [a\n",
		"a path for an output":            "image: a\noutputs: [[/work/x]]\ninputs: [./a]\nenv: [A=1]\n",
		"a tab":                           "image: a\nenv:\n\tA: x\n",
		"a tab in a block":                "image: a\nrun: |\n  if true; then\n\techo a\n  fi\n",
		"missing value":                   "image:\n",
		"empty command":                   "image: a\nrun: ''\n",
		"commands of no words":            "image: a\nsetup: []\nrun: []\nresume: []\ncheckpoint: {command: []}\nentrypoint: []\n",
		"types and values at once":        "image: a\nnodes: 0\nretry: many\nuser: ann\nenv: {1A: x}\n",
		"too large":                       "image: a\nnodes: 99999999999999999999\nretry: 9223372036854775808\nranks_per_node: 1000000000\n",
		"digits as text":                  "image: a\nnodes: '99999999999999999999'\n",
		"platform of no container":        "image: a\nplatform: foo/bar\n",
		"unknown architecture":            "image: a\nplatform: linux/amd46\n",
		"timeout of nothing":              "image: a\ntimeout: 0s\n",
		"grace of nothing":                "image: a\ncheckpoint: {grace: 0s}\n",
		"no CIDR":                         "image: a\nnetwork: 10.1.0.0/33\n",
		"an address":                      "image: a\nnetwork: 10.1.0.7\n",
		"no interface":                    "image: a\nnetwork: the fast one\n",
		"no false error on the image":     "imag: a\nnodes: 0\n",
		"no false error on volumes":       "image: a\nvolume: [x]\noutputs: [{from: /v/x, to: .}]\nnodes: 0\n",
		"no false error on outputs":       "image: a\nvolume: v\noutputs: [{from: /v/x, to: .}]\n",
		"no false error on secrets":       "image: a\nsecrets: {T: {file: [x]}, U: {}}\n",
		"no false error on inputs":        "image: a\ninputs: [{form: x, to: /work}, {from: x}]\n",
		"a restart beside a checkpoint":   "image: a\ncheckpoint: {grace: 1s}\nrestarts: true\n",
		"no false error on checkpoint":    "image: a\nresume: x\ncheckpont: {grace: 1s}\nnodes: 0\n",
		"value beside an unknown key":     "image: a\ninputs: [{frm: x, to: work}, {frm: x, to: /proc}]\noutputs: [{from: /y, too: z}]\n",
		"no such anchor":                  "image: *none\nnodes: 0\n",
		"anchor below an unknown key":     "common: &c {A: x}\nimage: a\nenv: *c\n",
		"merge of a list":                 "image: a\nenv: {<<: 5, B: y}\n",
		"image with a blank":              "image: foo bar\n",
		"image in capitals":               "image: UPPER/x\n",
		"image of no registry":            "image: other://debian\n",
		"image by https":                  "image: https://docker.io/x\n",
		"image of a library":              "image: library://a/b/c:1\n",
		"image of a hub":                  "image: shub://a/b\n",
		"image in no SIF file":            "image: 'sif:'\n",
		"image by a SIF's address":        "image: sif://app.sif\n",
		"image in a SIF's registry":       "image: oras://ghcr.io/x\n",
		"image in podman's storage":       "image: containers-storage:x\n",
		"image in skopeo's directory":     "image: dir:./x\n",
		"guest image by https":            "image: a\nvm: {image: 'https://x/y'}\n",
		"image of a bad tag":              "image: debian:1+2\n",
		"image of a bad digest":           "image: a@sha256:12\n",
		"image of no id":                  "image: sha256:zz\n",
		"image of no path":                "image: 'oci:'\n",
		"guest image of no name":          "image: a\nvm: {image: A b}\n",
		"suite of no name":                "build: {debian: bad suite;rm}\n",
		"snapshot of no date":             "build: {debian: bookworm, snapshot: yesterday}\n",
		"packages of no name":             "build: {debian: bookworm, packages: [-x, a b]}\nvm: {packages: ['']}\n",
		"Dockerfile beside Debian":        "build: {debian: bookworm, dockerfile: x, args: {A: b}}\n",
		"packages in a Dockerfile":        "build: {context: ., packages: [x], run: [x]}\n",
		"unknown builder":                 "build: {context: ., builder: kaniko}\n",
		"builder of packages":             "build: {debian: bookworm, builder: vm}\n",
		"input for all there is":          "image: a\ninputs: [{from: x, to: /}]\n",
		"input for the kernel's":          "image: a\ninputs: [{from: x, to: /proc/x}, {from: x, to: /a/../dev}]\n",
		"mount without a place":           "image: a\nmounts: [{from: /x}, /y:/z, {form: x}]\n",
		"mount of this machine's":         "image: a\nmounts: [{from: ./x, to: /x}, {from: ~/x, to: /y}, {from: p/../x, to: /z}, {from: '-x', to: /v}]\n",
		"mount over all":                  "image: a\nmounts: [{from: /x, to: /}]\n",
		"mount over the kernel's":         "image: a\nmounts: [{from: /x, to: /proc}, {from: /x, to: /a/../sys/fs}, {from: /x, to: /dev/shm}, {from: /x, to: /.bee/run}]\n",
		"mount over the volume":           "image: a\nvolume: /a/b\nmounts: [{from: /x, to: /a/b/}, {from: /x, to: /a}]\n",
		"mount on others":                 "image: a\ninputs: [{from: x, to: /in/x}, {from: y, to: /work/y}]\nmounts: [{from: /x, to: /in}, {from: /x, to: /work/y/z}, {from: /x, to: /m/}, {from: /x, to: /m/n}]\n",
		"mount on a disk":                 "image: a\nvm: {disks: [{size: 1G, to: /d}]}\nmounts: [{from: /x, to: /d/e}]\n",
		"mounts without number":           "image: a\nvm: true\nmounts: [" + fortyOneMounts() + "]\n",
		"output of a mount":               "image: a\nmounts: [{from: /x, to: /work/x}]\noutputs: [{from: '/work/x/*', to: .}]\n",
		"checkpoint in a mount":           "image: a\nmounts: [{from: /x, to: /work/x}]\ncheckpoint: {paths: [/work/x/y], file: /work/x/stop}\n",
		"mounts of saved machines":        "image: a\nvm: true\ncheckpoint: {mode: vm}\nmounts: [{from: /x, to: /y}]\n",
		"volume in BEE's own":             "image: a\nvolume: /.bee/run\n",
		"disk on the volume":              "image: a\nvm: {disks: [{size: 1G, to: /a/../work}]}\n",
		"disk on a disk":                  "image: a\nvm: {disks: [{size: 1G, to: /a}, {size: 1G, to: /a/}]}\n",
		"disk on an input":                "image: a\nvm: {disks: [{size: 1G, to: /in}]}\ninputs: [{from: x, to: /in}]\n",
		"RDMA of BEE in saved guests":     "image: a\nvm: true\ncheckpoint: {mode: vm}\nrdma: bee\n",
		"RDMA of BEE, domain in guests":   "image: a\nvm: true\nrdma: {device: bee, domain: lab}\n",
		"RDMA of BEE, forwarded domain":   "image: a\nrdma: {device: bee, path: forward, domain: lab}\n",
		"RDMA of BEE, no domain":          "image: a\nrdma: {device: bee, domain: ../lab}\n",
		"RDMA of BEE, empty domain":       "image: a\nrdma: {device: bee, domain: ''}\n",
		"RDMA of others, domain":          "image: a\nrdma: {device: host, domain: lab}\n",
		"RDMA of BEE, limits":             "image: a\nrdma: {device: bee, qps: 65537}\n",
		"RDMA of BEE, memory":             "image: a\nrdma: {device: bee, memory: much}\n",
		"RDMA of others, limits":          "image: a\nrdma: {device: host, qps: 10}\n",
		"RDMA, long":                      "image: a\nrdma: {device: soft}\n",
		"RDMA of guests, perhaps":         "image: a\nvm: auto\nrdma: soft\n",
		"RDMA of guests without a net":    "image: a\nnodes: 2\nvm: {fabric: none}\nrdma: soft\n",
		"RDMA keys of later":              "image: a\nvm: true\nrdma: {device: host, pci: '0000:81:00.1', memory: 4G}\n",
		"function of no card":             "image: a\nvm: true\nrdma: {device: host, pci: 81:00.1}\n",
		"function of no host":             "image: a\nvm: true\nrdma: {device: soft, pci: '0000:81:00.1'}\n",
		"function without a guest":        "image: a\nrdma: {device: host, pci: '0000:81:00.1'}\n",
		"function of two guests":          "image: a\nvm: {per_host: 2}\nrdma: {device: host, pci: '0000:81:00.1'}\n",
		"function that is saved":          "image: a\nvm: true\ncheckpoint: {mode: vm}\nrdma: {device: host, pci: '0000:81:00.1'}\n",
		"RDMA of a list":                  "image: a\nrdma: [host]\n",
		"empty RDMA":                      "image: a\nrdma: ''\n",
		"RDMA of the host in a guest":     "image: a\nvm: true\nrdma: host\n",
		"and in a long form":              "image: a\nvm: {cpus: 1}\nrdma:\n  device: host\n",
		"GPUs in a machine":               "image: a\nvm: true\ngpus: all\n",
		"runtime in a machine":            "image: a\nvm: {cpus: 2}\nruntime: podman\n",
		"disk in the kernel's":            "image: a\nvm: {disks: [{size: 1G, to: /sys}]}\n",
		"a NUL":                           "image: a\nrun: \"a\\0b\"\nworkdir: \"/\\0\"\nnodes: 0\n",
		"sizes that Go knows":             "image: a\nvm: {memory: nanG, disk: 1e30}\n",
		"build of nothing":                "build: {packages: [x]}\n",
	}
}

// TestBadBeefiles: all problems of each file are found, and each has its place.
func TestBadBeefiles(t *testing.T) {
	var found testkit.ErrorList
	files := bad()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, err := ParseJob("job.yaml", []byte(files[name]), "/d")
		all, ok := errors.AsType[*Errors](err)
		if !ok || !core.IsKind(err, core.Invalid) {
			t.Fatalf("%s: got %v, want an invalid Beefile", name, err)
		}
		for _, p := range all.Problems {
			if p.Line < 1 || p.Column < 1 || p.File != "job.yaml" {
				t.Errorf("%s: no place: %+v", name, p)
			}
		}
		found.Add(name+":\n"+files[name], err)
	}
	found.Compare(t, "beefile")
}

func TestImagesWithoutTheWordForWhatTheyAre(t *testing.T) {
	for ref, want := range map[string]string{
		"./x.tar": "docker-archive:./x.tar", "x.tar.gz": "docker-archive:x.tar.gz", "/d/y": "oci:/d/y", "../y": "build: ../y",
		"docker-archive:./x.tar": "", "oci:./y": "", "docker.io/library/debian:12": "", "debian": "", "127.0.0.1:5000/x": "", "podman:a": "",
		"localhost/a__b/c-d.e--f:V_1.0": "", "[::1]:5000/x": "", "Host.Example.org/x": "", "debian:x.tar": "", "sha256:0a1b": "", "sha256:" + strings.Repeat("a", 64): "",
		"quay.io/a/b:1@sha256:" + strings.Repeat("0", 64): "", "docker-daemon:sha256:" + strings.Repeat("0", 64): "", "docker-daemon:0a1b2c": "", "oci-archive:/A b": "",
	} {
		_, err := ParseJob("j.yaml", []byte("image: '"+ref+"'"), "/d")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestNamesThatNoImageHas(t *testing.T) {
	for _, ref := range []string{
		"Ubuntu", "docker.io/Foo/Bar:1", "ubuntu:", ":tag", "ubuntu: 22", "ubuntu:" + strings.Repeat("x", 200), "ubuntu@sha256:abc", " ", "a//b", "https://docker.io/x",
		"shub://x/y", "library://a/b/c:1", "oras://ghcr.io/x", "dir:./x", "containers-storage:x", "docker-archive:", "oci:", "sha256:zz",
	} {
		if _, err := ParseJob("j.yaml", []byte("image: '"+ref+"'"), "/d"); !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestCheckPlatform(t *testing.T) {
	for _, text := range []string{"", "linux/arm64/v8"} {
		if err := CheckPlatform("--platform", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{"blah", "linux/amd46"} {
		err := CheckPlatform("--platform", text)
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "platform")
}

func fortyOneMounts() string {
	var b strings.Builder
	for i := range 41 {
		fmt.Fprintf(&b, "{from: /x, to: /m%d}, ", i)
	}
	return b.String()
}

func TestVM(t *testing.T) {
	for text, want := range map[string]VM{
		"true":                    {When: VMAlways},
		"auto":                    {When: VMAuto},
		"{cpus: 4, memory: 8G}":   {CPUs: 4, Memory: 8 << 30},
		"{memory: 1.5GiB}":        {Memory: 3 << 29},
		"{when: auto, mtu: 9000}": {When: VMAuto, MTU: 9000},
	} {
		j, err := ParseJob("j.yaml", []byte("image: x\nvm: "+text), "/d")
		if err != nil || !reflect.DeepEqual(*j.VM, want) {
			t.Errorf("%s: %+v, %v", text, j, err)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"maybe",
		"{cpu: host, cpus: 5, sockets: 2}",
		"{memory: 1M}",
		"{memory: lots}",
		"{mtu: 100}",
		"{image: a, packages: [b]}",
		"{fabric: multicast, encryption: tls}",
		"{encryption: aes}",
		"{disks: [{to: /a}]}",
		"{disks: [{size: 1G, from: /x, to: /a}]}",
		"{disks: [{size: 1K, to: /a}]}",
		"{disks: [{from: x, to: /a}]}",
		"{disks: [{size: 1G, to: a}]}",
		"{disks: [" + strings.Repeat("{size: 1G, to: /a},", 17) + "]}",
		"{fabrik: switch}",
	} {
		_, err := ParseJob("j.yaml", []byte("image: x\nvm: "+text), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "vm")
}

func FuzzParseJob(f *testing.F) {
	for _, text := range bad() {
		f.Add(text)
	}
	f.Add("image: a\nenv: &x {A: 1}\nsecrets: *x\n")
	f.Add("name: a\nimage: &i a\n---\nname: b\nimage: *i\nafter: [a, c]\n---\n{name: c, build: ., array: {cases: {s: [1, 2]}}, after: [b, c, c.1]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		check := func(j *Job, err error) {
			if (j == nil) == (err == nil) {
				t.Errorf("job %v, error %v", j, err)
			}
			if err != nil && !core.IsKind(err, core.Invalid) {
				t.Errorf("a bad file gives kind %v: %v", core.KindOf(err), err)
			}
		}
		check(ParseJob("f.yaml", []byte(text), "/d"))
		drafts := DraftsOf("f.yaml", []byte(text), "/d")
		for _, d := range drafts {
			for _, l := range d.Links() {
				if l.Job >= len(drafts) || l.After >= len(d.Job.After) {
					t.Errorf("of %d jobs, it waits for %+v", len(drafts), l)
				}
			}
			check(d.Finish())
		}
	})
}

func FuzzParseSites(f *testing.F) {
	f.Add("sites: [{name: a, provider: ssh, hosts: ['n[1-3]']}]")
	f.Add("sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: 'bee:hpc'}}, {name: b, provider: openstack, slot: 1h, openstack: {types: [t], image: 'bee:hpc'}}]")
	f.Fuzz(func(_ *testing.T, text string) { ParseSites("f.yaml", []byte(text)) }) //nolint:errcheck // it must not panic
}

func FuzzConvert(f *testing.F) {
	f.Add(`{"task_conf":{"mpi_run":[{"script":1}]}}`)
	f.Fuzz(func(_ *testing.T, text string) { Convert("old.json", []byte(text)) }) //nolint:errcheck // it must not panic
}

func TestStores(t *testing.T) {
	for text, want := range map[string]Store{
		"/project/ann/bee":       {Dir: "/project/ann/bee"},
		"ann@archive:/tape/bee":  {Host: "ann@archive", Dir: "/tape/bee"},
		"archive:bee":            {Host: "archive", Dir: "bee"},
		"archive:~/bee":          {Host: "archive", Dir: "bee"},
		"./odd:name":             {Dir: "./odd:name"},
		"s3://bucket":            {Bucket: "bucket"},
		"s3://bucket/a/b/":       {Bucket: "bucket", Prefix: "a/b"},
		"s3://b-1/p?region=eu-1": {Bucket: "b-1", Prefix: "p", Region: "eu-1"},
		"s3://bucket?endpoint=https://s3.example.org:9000&profile=hpc": {Bucket: "bucket", Endpoint: "https://s3.example.org:9000", Profile: "hpc"},
	} {
		if got, err := ParseStore(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"/", "-oProxyCommand=x:dir", ":dir", "archive:", "archive:/", "ftp://x/y", "s3://B", "s3://", "s3://bucket?secret=x", "s3://bucket?endpoint=s3.example.org", "s3://bucket?endpoint=https://key:secret@host"} {
		if got, err := ParseStore(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
	_, err := ParseJob("job.yaml", []byte("image: x\nstore: ftp://x\ncheckpoint: {grace: 1s}\n"), "/")
	if all, is := errors.AsType[*Errors](err); !is || len(all.Problems) != 1 || all.Problems[0].Line != 2 || all.Problems[0].Column != 8 {
		t.Errorf("got %v", err)
	}
	j, err := ParseJob("job.yaml", []byte("image: x\nstore: kept\ncheckpoint: {grace: 1s}\n"), "/jobs")
	if err != nil || j.Store != "/jobs/kept" {
		t.Errorf("got %v, %v", j, err)
	}
}

func TestUnreadableFilesAreInvalid(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "none.yaml")
	for _, c := range []struct {
		name, file string
		kind       core.Kind
	}{{"directory", dir, core.Invalid}, {"below a file", filepath.Join(os.Args[0], "x"), core.Invalid}, {"missing", missing, core.NotFound}} {
		t.Run(c.name, func(t *testing.T) {
			_, err1 := LoadJob(c.file)
			_, err2 := LoadSites(c.file)
			for _, err := range []error{err1, err2} {
				if !core.IsKind(err, c.kind) || core.Remedy(err) == "" || !strings.Contains(err.Error(), c.file) {
					t.Errorf("got %v (%v), want %v and a remedy", err, core.KindOf(err), c.kind)
				}
			}
		})
	}
}

func TestVolume(t *testing.T) {
	for text, want := range map[string]Volume{
		"":                            {Path: "/work"},
		"volume: /scratch/":           {Path: "/scratch"},
		"vm: true\nvolume: dataimage": {Path: "/work", Kind: VolumeImage},
		"vm: true\nvolume: {path: /d, kind: dataimage, size: 1.5G}": {Path: "/d", Kind: VolumeImage, Size: 3 << 29},
		"vm: true\nvolume: {kind: dataimage, from: in.img}":         {Path: "/work", Kind: VolumeImage, From: "/in.img"},
		"vm: true\ncheckpoint: {mode: vm}\nvolume: dataimage":       {Path: "/work", Kind: VolumeImage},
		"vm: auto\nvolume: {kind: auto, size: 1G}":                  {Path: "/work", Kind: VolumeAuto, Size: 1 << 30},
		"volume: {kind: burst, remote: ./far, disk: 1G, rate: 8kbit, protect: true, expect: {write: 1G, every: 10m, read: 2G, reuse: 0.5}}": {
			Path: "/work", Kind: VolumeBurst, Remote: "/far", Disk: 1 << 30, Rate: 8000, Protect: true,
			Expect: Expect{Write: 1 << 30, Every: 10 * time.Minute, Read: 2 << 30, Reuse: 0.5},
		},
		"workdir: /work/case\nvolume: {kind: burst, remote: ./far, prefetch: [/work/input/*.nc, grid, ../table, /work]}": {
			Path: "/work", Kind: VolumeBurst, Remote: "/far", Prefetch: []string{"/work/input/*.nc", "/work/case/grid", "/work/table", "/work"},
		},
		"volume: {kind: burst, remote: s3://bucket/run7}": {Path: "/work", Kind: VolumeBurst, Remote: "s3://bucket/run7"},
	} {
		j, err := ParseJob("job.yaml", []byte("image: x\n"+text+"\n"), "/")
		if err != nil || !reflect.DeepEqual(j.Volume, want) {
			t.Errorf("%q: %+v, %v", text, j, err)
			continue
		}
		raw, err := json.Marshal(j.Volume)
		var again Volume
		if err = errors.Join(err, json.Unmarshal(raw, &again)); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s: %+v, %v", raw, again, err)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"volume: dataimage",
		"vm: false\nvolume: dataimage",
		"vm: auto\nvolume: dataimage",
		"vm: true\nvolume: disk",
		"vm: true\nvolume: {kind: disk}",
		"vm: true\nvolume: {kind: dataimage, size: 1M}",
		"vm: true\nvolume: {kind: virtio, size: 1G}",
		"volume: {size: 1G}",
		"vm: true\nvolume: {from: in.img}",
		"nodes: 2\nvm: {fabric: none}\nvolume: dataimage",
		"volume: burst",
		"volume: {remote: ./far}",
		"volume: {expect: {write: 1G}}",
		"volume: {kind: burst, remote: 'ftp://far/x'}",
		"volume: {kind: burst, remote: ./far, disk: 1M}",
		"volume: {kind: burst, remote: ./far, size: 1G}",
		"volume: {kind: burst, remote: ./far, expect: {reuse: 2}}",
		"volume: {prefetch: [/work/a]}",
		"volume: {kind: burst, remote: ./far, prefetch: [/data/a, input, '/work/[a']}",
		"volume: {kind: burst, remote: ./far, credentials: send}",
		"volume: {kind: burst, remote: s3://climate/run7, credentials: lend}",
		"volume: {credentials: send}",
		"vm: true\nvolume: {kind: burst, remote: ./far}",
		"checkpoint: {}\nvolume: {kind: burst, remote: s3://climate/run7}",
		"vm: {devices: emulated, nic: vhost}",
		"vm: {devices: emulated}\nvolume: virtio",
	} {
		_, err := ParseJob("job.yaml", []byte("image: x\n"+text+"\n"), "/")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "volume")
}

func TestLongLinesAreShownAboutTheirMistake(t *testing.T) {
	long := "image: a\nenv: {A: " + strings.Repeat("é", 500) + ", B: [x], C: " + strings.Repeat("z", 500) + "}\n"
	_, err := ParseJob("x.yaml", []byte(long), "/d")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 || len([]rune(lines[1])) > 170 {
		t.Fatalf("got\n%v", err)
	}
	source, mark := []rune(lines[1]), strings.Index(lines[2], "^")
	if got := string(source[mark : mark+1]); got != "[" {
		t.Errorf("it points at %q:\n%v", got, err)
	}
}
