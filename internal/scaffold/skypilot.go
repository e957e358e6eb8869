package scaffold

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
)

// skyPilot converts a task of SkyPilot.
func skyPilot(d *draft, file string, data []byte, _ func(string) bool) error {
	tree, err := spec.Tree(file, data)
	if err != nil {
		return err
	}
	d.job.Name = nameOf(file)
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		d.taskKey(key, tree[key])
	}
	text := ""
	for _, c := range []*spec.Command{d.job.Run, d.job.Setup} {
		if c != nil {
			text += c.Shell + "\n"
		}
	}
	if strings.Contains(text, "SKYPILOT_") {
		d.note("SKYPILOT_NODE_RANK, SKYPILOT_NODE_IPS and SKYPILOT_NUM_NODES are BEE_NODE_RANK, BEE_NODELIST (host names, with commas) and BEE_NUM_NODES here")
	}
	if d.job.Nodes > 1 {
		d.note("run: SkyPilot starts it on every node; here it starts on node 0, and mpirun reaches the others")
	}
	return nil
}

func (d *draft) taskKey(key string, v any) {
	switch key {
	case "name":
		d.job.Name = scalar(v)
	case "num_nodes":
		if n, err := strconv.Atoi(scalar(v)); err == nil {
			d.job.Nodes = n
		}
	case "workdir":
		d.job.Inputs = append(d.job.Inputs, spec.Input{From: strings.TrimSuffix(scalar(v), "/") + "/*", To: "/work/"})
		d.job.Workdir = "/work"
	case "setup":
		d.job.Setup = command(v)
	case "run":
		d.job.Run = command(v)
	case "envs":
		for key, value := range pairs(v) {
			d.env(key, value)
		}
	case "secrets":
		d.job.Secrets = map[string]spec.Secret{}
		for key := range pairs(v) {
			d.job.Secrets[key] = spec.Secret{Env: key}
		}
	case "file_mounts":
		d.fileMounts(mapping(v))
	case "resources":
		d.resources(mapping(v))
	default:
		d.foreign(key, scalar(v))
	}
}

func (d *draft) fileMounts(mounts map[string]any) {
	for _, to := range slices.Sorted(maps.Keys(mounts)) {
		from := scalar(mounts[to])
		switch {
		case from == "" || strings.Contains(from, "://") && !strings.HasPrefix(from, "s3://"):
			d.note("file_mounts %s: only files of this machine and objects of s3:// can be converted", short(to))
		case !strings.HasPrefix(to, "/"):
			d.note("file_mounts %s: the containers' paths are absolute", short(to))
		default:
			d.job.Inputs = append(d.job.Inputs, spec.Input{From: from, To: to})
		}
	}
}

func (d *draft) resources(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		v := keys[key]
		switch key {
		case "image_id":
			ref := scalar(v)
			if rest, is := strings.CutPrefix(ref, "docker:"); is {
				d.image(rest)
				continue
			}
			d.note("image_id %s: it is an image of a cloud's machines; name one of containers by `image:`", short(ref))
		case "accelerators":
			text := scalar(v)
			for name, count := range mapping(v) {
				text = name + ":" + scalar(count)
			}
			d.gpus(key, text)
		case "cpus":
			d.cores(key, scalar(v))
		case "memory":
			d.memory(key, scalar(v), "G")
		default:
			d.foreign(key, scalar(v))
		}
	}
}
