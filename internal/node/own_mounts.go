package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/plan"
)

// ownMounts runs the node in namespaces of its own, in which it can mount the volume, and returns once it has
// ended, with its exit code. Where that is not possible, or a runtime is asked for whose containers would lack
// the volume, the node did not begin.
func ownMounts(c plan.Config, o Options) (code int, ended bool) {
	if c.Runtime != "auto" {
		rt, _, err := o.Runtime(context.Background(), c.Runtime)
		if err != nil || !rt.Info().OwnMounts {
			return 0, false
		}
	}
	raw, err := json.Marshal(c)
	if err == nil {
		code, err = mountns.Run(append(os.Args[:2:2], "mounts"), raw)
	}
	if err != nil {
		o.Log.Warn("the node has the mounts of its host", "err", err, "remedy", core.Remedy(err))
	}
	return code, err == nil
}

// sees refuses a runtime whose containers would not have a volume that is mounted in namespaces of this node.
func sees(rt driver.Runtime) error {
	if !mountns.Own() || rt.Info().OwnMounts {
		return nil
	}
	name := rt.Info().Name
	return &core.Error{
		Kind: core.Unsupported, Op: "start container with", Object: name, Err: errors.New("its containers would not have the burst buffer, which is mounted in namespaces of the node"),
		Remedy: "Choose `runtime: rootless`, or `runtime: " + name + "` by its name.",
	}
}
