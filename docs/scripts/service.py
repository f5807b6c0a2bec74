"""Answers POST /predict {"rows": [[…], …]} from model.onnx and watches its answers: uvicorn service:app"""

from threading import Lock

import numpy as np
import onnxruntime
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

import singularbayes as sb

MOST_ROWS, MOST_BYTES = 1_000, 1_000_000
OUTPUTS = ("entropy", "mean", "mutual_information")  # in the order of the file, which is alphabetical
session = onnxruntime.InferenceSession("model.onnx")
[rows] = session.get_inputs()
monitor, lock, app = sb.Monitor.load("monitor.json"), Lock(), FastAPI()


class Question(BaseModel):
    rows: list[list[float]] = Field(min_length=1, max_length=MOST_ROWS)


@app.middleware("http")
async def refuse_large(request: Request, call_next):
    if request.method == "POST" and int(request.headers.get("content-length", MOST_BYTES + 1)) > MOST_BYTES:
        return JSONResponse({"detail": f"A request has a content-length of at most {MOST_BYTES}."}, status_code=413)
    return await call_next(request)


@app.post("/predict")
def predict(question: Question):
    x = [row for row in question.rows if len(row) == rows.shape[1] and np.isfinite(np.float32(row)).all()]
    if len(x) < len(question.rows):
        raise HTTPException(422, f"Every row needs {rows.shape[1]} finite numbers.")
    found = dict(zip(OUTPUTS, session.run(None, {rows.name: np.float32(x)}), strict=True))
    with lock:
        status = monitor.update(found["entropy"])
    return {name: values.tolist() for name, values in found.items()} | {"alarm": status.alarm, "status": str(status)}
