#!/usr/bin/env python3
"""Writes configs/hardware/NAME.toml from a table of accelerators (one row each, units in the column names).

    scripts/hardware_from_csv.py TABLE.csv configs/hardware

An empty cell is a figure that is not known, and its key is left out. Bandwidths become bytes a second.
"""
import csv
import pathlib
import re
import sys

PEAKS = [("float32", "fp32_tflops"), ("tfloat32", "tf32_tflops"), ("bfloat16", "bf16_tflops"),
         ("float16", "fp16_tflops"), ("float8", "fp8_tflops"), ("float4", "fp4_tflops")]

def text(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

def figure(cell, scale):
    return f"{float(cell) * scale:.6g}".replace("+", "")

def file_name(accelerator):
    return re.sub(r"[^a-z0-9]+", "-", accelerator.lower()).strip("-")

def devices_per_node(row):
    whole = re.match(r"\d+", row["scaleup_domain_size"])
    return int(whole.group()) if whole else 0

def link(name, bandwidth, source):
    if not bandwidth:
        return []
    return ["", f"[{name}]", f"bandwidth_bytes_per_second = {bandwidth}", f"source = {text(source)}"]

def notes(row):
    measured = [f"{row[key]} TFLOP/s is the highest {name} matmul rate measured"
                for name, key in [("bfloat16", "mamf_bf16_tflops"), ("float8", "mamf_fp8_tflops")] if row[key]]
    memory = [f"memory is {row['hbm_type']}"] if row["hbm_type"] else []
    domain = [f"scale-up domain: {row['scaleup_domain_size']}"] if row["scaleup_domain_size"] else []
    point = row["scaleup_p2p_gbps_per_direction"]
    pair = [f"one pair of devices reaches {point} GB/s a direction"] if point and point != row["scaleup_gbps_per_direction"] else []
    host = [f"{row['pcie']}: {row['pcie_gbps_per_direction']} GB/s a direction"] if row["pcie_gbps_per_direction"] else []
    return "; ".join(filter(None, [row["notes"], *memory, *domain, *pair, *host, *measured]))

def document(row):
    source = re.sub(r" \(find_string id \d+\)", "", row["source"])  # how the table's maker found it
    lines = [f"name = {text(row['accelerator'])}", f"source = {text(source)}"]
    if notes(row):
        lines.append(f"notes = {text(notes(row))}")
    if row["hbm_gb"]:
        lines.append(f"memory_bytes = {round(float(row['hbm_gb']) * 1e9)}")
    if row["hbm_gbps"]:
        lines.append(f"memory_bandwidth_bytes_per_second = {figure(row['hbm_gbps'], 1e9)}")
    if devices_per_node(row):
        lines.append(f"devices_per_node = {devices_per_node(row)}")
    lines += ["", "[peak_flops]  # dense"]
    lines += [f"{dtype} = {figure(row[column], 1e12)}" for dtype, column in PEAKS if row[column]]
    up, out = row["scaleup_gbps_per_direction"], row["scaleout_nic_gbps_per_gpu"]
    lines += link("scale_up", up and figure(up, 1e9), row["scaleup_link"])
    lines += link("scale_out", out and figure(out, 1e9 / 8), row["scaleout_note"])
    return "\n".join(lines) + "\n"

def main(table, folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for row in csv.DictReader(open(table, encoding="utf-8")):
        pathlib.Path(folder, file_name(row["accelerator"]) + ".toml").write_text(document(row), encoding="utf-8")

main(*sys.argv[1:])
