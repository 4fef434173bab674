// The metrics that a profile may have, and the domains of their facts.

export const KNOWN = [
  { name: "gpu-time", domain: "device", label: "GPU time" },
  { name: "gpu-stalls", domain: "device", label: "GPU samples" },
  { name: "gpu-latency", domain: "device", label: "GPU latency" },
  { name: "bytes", domain: "device", label: "bytes copied" },
  { name: "energy", domain: "device", label: "energy" },
  { name: "dram-bytes", domain: "device", label: "bytes of GPU memory" },
  { name: "l2-bytes", domain: "device", label: "bytes of L2" },
  { name: "pcie-bytes", domain: "device", label: "bytes over PCIe" },
  { name: "nvlink-bytes", domain: "device", label: "bytes over NVLink" },
  { name: "tensor", domain: "device", label: "tensor cores" },
  { name: "sm-activity", domain: "device", label: "SM activity" },
  { name: "could-win", domain: "device", label: "time that could be won" },
  { name: "cpu-time", domain: "cpu", label: "CPU time" },
  { name: "wall-time", domain: "wall", label: "wall-clock time" },
];

/** Metrics that the profile names itself, in the order of their domains. `metrics`: those of its summary. */
export function ownMetrics(metrics) {
  return metrics.filter(({ name }) => !KNOWN.some((one) => one.name === name)).map(({ name, label }, number) => ({ name, domain: `own-${number}`, label }));
}
