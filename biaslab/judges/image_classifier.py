"""Perceived gender by any image classifier of transformers that has labels for female and male."""

from biaslab.errors import ParameterError
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import model_loading
from biaslab.judges.judge import Answer, HubJudge, People
from biaslab.judges.person import face_of
from biaslab.judges.questions import read_answer
from biaslab.schema.genders import GENDERS


class ClassifierJudge(HubJudge):
    """``classifier:NAME``: it is shown the face, and its labels for female and for male are compared."""

    prefix, kind = "classifier:", "classifier"

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where the labels of a model do not name each gender once."""
        labels = [str(label) for label in model_loading.labels_of(files).values()]
        if sorted(gender for gender, _ in map(read_answer, labels) if gender in GENDERS) != sorted(GENDERS):
            raise ParameterError(f"{self.name} needs one label for female and one for male; it has {labels}.")

    def load(self) -> model_loading.Ready:
        """Return the classifier."""
        folder, _ = model_loading.of_transformers(self.argument, self.kind, "an image classifier")
        place = {"on": self.options.device, "processor": "AutoImageProcessor"}
        return model_loading.Ready("AutoModelForImageClassification", self.name, folder, "a classifier", **place)

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female for each person; InputError where one is not finite."""
        network, faces = self.model, [face_of(person) for person in people.persons]
        pixels = network.processor(images=faces, return_tensors="pt").to(network.device)
        scores = network.checked(network.model.requires_grad_(False)(**pixels).logits.float())
        columns = {read_answer(str(label))[0]: int(k) for k, label in network.model.config.id2label.items()}
        return [Answer(float(p)) for p in scores[:, [columns[gender] for gender in GENDERS]].softmax(dim=-1)[:, 0]]
