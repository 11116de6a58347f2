# Sourced by tests/container.sh and tests/deb.sh: podman, as far as it can run containers on this machine.
#
# Inside of a container it often cannot as it stands: limits of processes and files may not be raised, and crun refuses a mixture of both
# versions of control groups. Therefore it is tried as it is, then with limits that are low enough, then in a mount namespace without the
# second version. Needs `work`, a folder of the caller's, and `storage`, an array of podman's flags for images.

pod_options=()
pod_enter=()
pod_namespace=''
podman_why=''
pod() { "${pod_enter[@]}" podman "${storage[@]}" --tmpdir "$work/podman" "${pod_flags[@]}" "$@"; }
pod_flags=()

# IMAGE OPTIONS... -- ARGUMENTS...: whether a container of the image runs in one of these ways, which is used from then on.
podman_runs() {
    local image=$1 options=() limits=(--ulimit nofile=1024:1024 --ulimit nproc=1000:1000)
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    if ! command -v podman >/dev/null; then podman_why="podman is missing"; return 1; fi
    tried() { pod run "${pod_options[@]}" --rm --network none --no-healthcheck "${options[@]}" "$image" "$@" >"$work/podman.log" 2>&1; }
    tried "$@" && return
    podman_why=$(tail -n 1 "$work/podman.log")
    pod_options=("${limits[@]}")
    tried "$@" && return
    if unshare --mount true 2>/dev/null && mountpoint -q /sys/fs/cgroup/unified; then
        unshare --mount sh -c 'umount /sys/fs/cgroup/unified && exec sleep infinity' &
        pod_namespace=$!
        sleep 0.5
        pod_enter=(nsenter -t $pod_namespace -m)
        pod_flags=(--cgroup-manager cgroupfs)
        pod_options=("${limits[@]}" --security-opt seccomp=unconfined)
        tried "$@" && return
        podman_why=$(tail -n 1 "$work/podman.log")
    fi
    return 1
}

podman_ends() {
    [ -z "$pod_namespace" ] || { pod rm --all --force --time 1 >/dev/null 2>&1; kill "$pod_namespace" 2>/dev/null; } || true
}
